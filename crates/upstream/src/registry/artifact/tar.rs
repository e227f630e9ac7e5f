//! A tar archive with one file, in the `ustar` format, without anything that depends on when or where it is made.

const BLOCK: usize = 512;

/// The archive; `name` is short.
pub(super) fn single(name: &str, content: &[u8]) -> Vec<u8> {
    let mut archive = Vec::with_capacity(content.len() + 4 * BLOCK);
    archive.extend_from_slice(&header(name, content.len()));
    archive.extend_from_slice(content);
    // The file ends on a block, the archive with two empty ones.
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive
}

fn header(name: &str, size: usize) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    // The sum is made with spaces in its own place.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}
