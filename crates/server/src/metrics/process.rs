//! The metrics of the process, with the names that Prometheus' client libraries use.

use super::families::Families;

#[cfg(target_os = "linux")]
pub(super) fn collect(families: &mut Families) {
    use rustix::process::{Resource, getrlimit};
    use rustix::time::{ClockId, clock_gettime};
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
    families.counter("process_cpu_seconds_total", "User and system CPU time, in seconds.").add(&[], seconds);
    if let Some(bytes) = resident() {
        families.gauge("process_resident_memory_bytes", "Resident memory, in bytes.").add(&[], bytes);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // One of the descriptors is that of the directory.
        let open = open.count().saturating_sub(1);
        families.gauge("process_open_fds", "Open file descriptors.").add(&[], open as f64);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        families.gauge("process_max_fds", "Maximum number of open file descriptors.").add(&[], most as f64);
    }
    if let Some(seconds) = started() {
        families
            .gauge("process_start_time_seconds", "Start time of the process, in seconds since 1970.")
            .add(&[], seconds);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn collect(_: &mut Families) {}

/// Returns `VmRSS` of the process in bytes. The kernel reports it in kibibytes.
#[cfg(target_os = "linux")]
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// Returns the start time of the process, in seconds since 1970: the boot time, plus the hundredths of a
/// second from there.
#[cfg(target_os = "linux")]
fn started() -> Option<f64> {
    let machine = std::fs::read_to_string("/proc/stat").ok()?;
    let booted: f64 = machine.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let own = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in brackets may contain any character.
    let ticks: f64 = own.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    Some(booted + ticks / 100.0)
}
