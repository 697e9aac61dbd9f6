//! `valvehouse list --stats`: the costs of the calls of each hook and tool.

use std::io;
use std::time::Duration;
use valvehouse_core::metrics::Sum;
use valvehouse_host::{SharedStatus, Snapshot};
use valvehouse_terminal::{Console, Paint, table};

pub(super) fn show(snapshot: &Snapshot, standing: &SharedStatus, out: &Console) -> io::Result<()> {
    if standing.hosts == 0 {
        out.note("no host is running on this project: statistics exist only while a host is running");
        return Ok(());
    }
    let rows = rows(snapshot, standing, out.results());
    if rows.len() == 1 {
        out.note("no plugin has been called since the host started");
        return Ok(());
    }
    out.line(&table(&rows))?;
    out.note("since the start of the host; running time without waiting, peak memory");
    Ok(())
}

fn rows(snapshot: &Snapshot, standing: &SharedStatus, paint: Paint) -> Vec<Vec<String>> {
    let head = ["ID", "CALL", "CALLS", "BROKEN", "OPERATIONS", "MOST", "TIME", "LONGEST", "MEMORY"];
    let mut rows = vec![head.map(|word| paint.dim(word)).to_vec()];
    for id in snapshot.plugins.keys() {
        let Some(plugin) = standing.of(id) else { continue };
        for (call, sum) in &plugin.sums {
            rows.push(row(id, call, sum, paint));
        }
    }
    rows
}

fn row(id: &str, call: &str, sum: &Sum, paint: Paint) -> Vec<String> {
    let broken = sum.broken.to_string();
    vec![
        paint.bold(id),
        call.to_owned(),
        sum.calls.to_string(),
        if sum.broken > 0 { paint.red(&broken) } else { broken },
        sum.operations.checked_div(sum.calls).unwrap_or(0).to_string(),
        sum.most_operations.to_string(),
        time(sum.mean_time()),
        time(Duration::from_nanos(sum.longest)),
        memory(sum.most_memory),
    ]
}

/// Returns a duration with two or more digits: `850 ns`, `12.3 us`, `4.0 ms`, `1.2 s`.
fn time(time: Duration) -> String {
    let nanoseconds = time.as_nanos() as f64;
    match nanoseconds {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} s", ns / 1e9),
    }
}

fn memory(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1024.0 => format!("{bytes:.0} B"),
        bytes if bytes < 1048576.0 => format!("{:.1} KB", bytes / 1024.0),
        bytes => format!("{:.1} MB", bytes / 1048576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_abbreviated() {
        let nanoseconds = [0, 850, 12_300, 4_000_000, 1_200_000_000].map(Duration::from_nanos);
        assert_eq!(nanoseconds.map(time), ["0 ns", "850 ns", "12.3 us", "4.0 ms", "1.2 s"]);
        assert_eq!([0, 1_536, 64 << 20].map(memory), ["0 B", "1.5 KB", "64.0 MB"]);
    }
}
