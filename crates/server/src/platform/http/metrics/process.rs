//! Metrics of the process, under the usual names of Prometheus.
//!
//! They are read from `/proc`; on a system without it there are none.

use std::{fmt::Write as _, fs};

/// Ticks of a second in `/proc`, on every system that Linux shows to programs.
const TICKS: f64 = 100.0;

/// The unit of memory in `/proc/self/status`, in bytes.
const KIB: f64 = 1024.0;

/// The numbers in the text format; nothing where they cannot be read.
pub(super) fn text() -> String {
    let mut text = String::new();
    let rows: [(&str, &str, &str, Option<f64>); 6] = [
        ("process_resident_memory_bytes", "gauge", "Memory that the process has in RAM.", memory("VmRSS:")),
        ("process_virtual_memory_bytes", "gauge", "Memory that the process has reserved.", memory("VmSize:")),
        ("process_cpu_seconds_total", "counter", "Time that processors spent on the process.", cpu()),
        ("process_open_fds", "gauge", "Files and connections that are open.", open_files()),
        ("process_max_fds", "gauge", "Files and connections that may be open.", most_files()),
        ("process_start_time_seconds", "gauge", "When the process started, since 1970.", started()),
    ];
    for (name, kind, meaning, value) in rows {
        if let Some(value) = value {
            // Writing to a text does not fail.
            let _ = write!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}\n{name} {value}\n\n");
        }
    }
    text
}

fn memory(field: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * KIB)
}

/// A field of `/proc/self/stat`, counted from 1 as its manual does. The name of the program may have spaces.
fn stat(field: usize) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(field - 3)?.parse().ok()
}

fn cpu() -> Option<f64> {
    Some((stat(14)? + stat(15)?) / TICKS)
}

fn started() -> Option<f64> {
    let system = fs::read_to_string("/proc/stat").ok()?;
    let booted: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(booted + stat(22)? / TICKS)
}

fn open_files() -> Option<f64> {
    // The folder itself is open while it is read.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

fn most_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
