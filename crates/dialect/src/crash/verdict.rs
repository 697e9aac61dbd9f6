//! Determines the versions that ended a process from its record.

use super::quarantine::{Entry, LeftOver, List};
use std::time::Duration;

/// The loading time from which a file is blamed if the process is ended from outside.
pub const LONG_LOAD: Duration = Duration::from_millis(100);
/// The time without yielding from which a call is a suspect.
pub const LONG_CALL: Duration = Duration::from_millis(500);
/// The time for which a suspect is remembered.
pub const MEMORY: Duration = Duration::from_secs(24 * 3_600);

/// Adds the versions that ended a process to the list. `now` is in milliseconds since 1970. Returns the newly
/// quarantined versions.
pub(super) fn judge(left: &LeftOver, list: &mut List, now: i64) -> Vec<Entry> {
    list.suspects.retain(|suspect| now.saturating_sub(suspect.at) < MEMORY.as_millis() as i64);
    let mut caught: Vec<Entry> = Vec::new();
    if let Some((signal, Some(ran))) = &left.fault {
        let when = if ran.is_loading { "was being loaded" } else { "ran" };
        caught.push(Entry::new(
            ran,
            now,
            format!("the process crashed with {} while the plugin {when}", name(*signal)),
        ));
    } else {
        for ran in &left.running {
            if ran.is_loading && ran.age >= LONG_LOAD {
                caught.push(Entry::new(
                    ran,
                    now,
                    "the process ended while the plugin was being loaded".into(),
                ));
            } else if ran.age >= LONG_CALL && !list.suspect(ran, now) {
                let why = "the process ended twice while the plugin was stuck in one call";
                caught.push(Entry::new(ran, now, why.into()));
            }
        }
    }
    caught.retain(|entry| list.add(entry));
    caught
}

fn name(signal: i32) -> String {
    match signal {
        4 => "SIGILL".into(),
        6 => "SIGABRT".into(),
        7 | 10 => "SIGBUS".into(),
        8 => "SIGFPE".into(),
        11 => "SIGSEGV".into(),
        other => format!("signal {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::quarantine::LastRun;

    fn ran(id: &str, is_loading: bool, age: Duration) -> LastRun {
        LastRun { id: id.into(), hash: "1".into(), is_loading, age }
    }

    fn ids(entries: &[Entry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.id.as_str()).collect()
    }

    const LONG: Duration = Duration::from_secs(2);

    #[test]
    fn a_crash_is_attributed_to_the_script_on_its_thread() {
        let mut list = List::default();
        let running = vec![ran("a", false, LONG), ran("b", false, LONG)];
        let left = LeftOver { fault: Some((6, Some(ran("b", false, Duration::ZERO)))), running };
        let caught = judge(&left, &mut list, 0);
        assert_eq!(ids(&caught), ["b"]);
        assert!(caught[0].why.contains("SIGABRT"), "{}", caught[0].why);
        assert!(judge(&left, &mut list, 1).is_empty(), "it is there already");
        assert!(list.suspects.is_empty());
    }

    #[test]
    fn killing_a_healthy_host_quarantines_nothing() {
        let mut list = List::default();
        let running = vec![
            ran("calls", false, LONG_CALL - Duration::from_millis(1)),
            ran("loads", true, LONG_LOAD - Duration::from_millis(1)),
        ];
        let left = LeftOver { fault: None, running };
        for now in 0..100 {
            assert!(judge(&left, &mut list, now).is_empty());
        }
        let left = LeftOver { fault: Some((6, None)), running: Vec::new() };
        assert!(judge(&left, &mut list, 0).is_empty());
    }

    #[test]
    fn a_file_that_was_loading_for_long_is_quarantined_at_once() {
        let left = LeftOver { fault: None, running: vec![ran("a", true, LONG_LOAD)] };
        assert_eq!(ids(&judge(&left, &mut List::default(), 0)), ["a"]);
    }

    #[test]
    fn a_stuck_call_is_quarantined_the_second_time_within_a_day() {
        let day = MEMORY.as_millis() as i64;
        let left = LeftOver { fault: None, running: vec![ran("a", false, LONG_CALL)] };
        let mut list = List::default();
        assert!(judge(&left, &mut list, 0).is_empty());
        assert!(judge(&left, &mut list, day).is_empty(), "the first time is forgotten");
        assert_eq!(ids(&judge(&left, &mut list, day + 1)), ["a"]);
    }
}
