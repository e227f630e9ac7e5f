//! Passes the bytes of a connection through, except for refusals that the HTTP parser writes by itself.
//!
//! The parser refuses a head that it cannot read before there is a request, with a status and nothing else.
//! That answer is held back here, and the connection's task sends a problem in its place.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use crate::platform::http::error::Error;

pub(crate) struct Wire<S> {
    stream: S,
    /// Whether input came since the last output.
    heard: bool,
    refused: Option<Error>,
}

/// The time to deliver a refusal, and how much more input is read and dropped meanwhile: closing a connection
/// with unread bytes loses the answer.
const LINGER: Duration = Duration::from_secs(2);
const UNREAD: u64 = 1 << 20;

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, heard: false, refused: None }
    }

    /// Explains the mistake in an unreadable head, if there was anything to read.
    pub(crate) async fn explain(mut self, error: &hyper::Error) {
        let refused = self.refused.or_else(|| {
            let late = error.is_timeout() && self.heard;
            let version = error.is_parse_version_h2();
            late.then_some(LATE).or(version.then_some(VERSION))
        });
        let Some(refused) = refused else { return };
        let id = uuid::Uuid::now_v7();
        let body = serde_json::to_string(&refused.problem(&[], &id.to_string())).unwrap_or_default();
        let answer = format!(
            "HTTP/1.1 {}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\
             cache-control: no-store\r\nx-content-type-options: nosniff\r\nx-request-id: {id}\r\n\r\n{body}",
            refused.status(),
            body.len(),
        );
        let tell = async {
            self.stream.write_all(answer.as_bytes()).await?;
            self.stream.shutdown().await?;
            tokio::io::copy(&mut self.stream.take(UNREAD), &mut tokio::io::sink()).await
        };
        // A caller that has gone needs no answer.
        let _ = tokio::time::timeout(LINGER, tell).await;
    }
}

const LATE: Error =
    Error::Head { code: "head_late", detail: "the head of the request did not come in time: send it again" };

const VERSION: Error =
    Error::Head { code: "http_version", detail: "HTTP/2 is not supported here: use HTTP/1.1" };

/// Returns the refusal that the parser wrote, known by the lack of a header that every answer of ours has.
fn refusal(written: &[u8]) -> Option<Error> {
    let rest = written.strip_prefix(b"HTTP/1.1 4")?;
    let bare = rest.len() < 160
        && rest.ends_with(b"\r\n\r\n")
        && !rest.windows(12).any(|part| part == b"x-request-id");
    let (code, detail) = match rest.get(..2).filter(|_| bare)? {
        b"00" => {
            ("bad_head", "the head of the request is not HTTP/1.1: look at its first line and its headers")
        }
        b"14" => {
            ("uri_too_long", "the path and query are longer than the server reads: ask for less at once")
        }
        b"31" => ("head_too_large", "the headers are larger than the server reads, or too many: send fewer"),
        _ => return None,
    };
    Some(Error::Head { code, detail })
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.heard |= buffer.filled().len() > before;
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(refused) = refusal(buffer) {
            self.refused = Some(refused);
            return Poll::Ready(Ok(buffer.len()));
        }
        self.heard = false;
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [buffer] = buffers {
            return self.poll_write(context, buffer);
        }
        self.heard = false;
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.refused.is_some() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
