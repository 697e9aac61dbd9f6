//! The pages that the system keeps in memory for this program: small ones, without code that nobody runs any
//! more.

// The one call that the system offers only to those who vouch for the place.
#![allow(unsafe_code)]

/// No huge pages from now on, which some systems hand out unasked: two megabytes wherever a host uses a
/// few kilobytes, each stack included. Programs that it starts have none either.
pub fn in_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!("cannot disable transparent huge pages: {error}");
    }
}

/// Gives back the pages of code that were needed so far, of which a start takes several times as many as
/// all requests that follow. Those that run again come back from the system's cache of files.
pub fn give_back_code() {
    #[cfg(target_os = "linux")]
    linux::give_back_code();
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::mm::{Advice, madvise};
    use std::ops::Range;

    pub(super) fn give_back_code() {
        // A system that does not show it keeps it.
        let shown = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let program = std::env::current_exe().unwrap_or_default();
        for place in shown.lines().filter_map(|line| unwritten(line, &program.to_string_lossy())) {
            // SAFETY: these bytes are a file's, mapped for reading only from the first moment on: what comes
            // back for them is what was there.
            let given = unsafe { madvise(place.start as *mut _, place.len(), Advice::LinuxDontNeed) };
            if let Err(error) = given {
                tracing::debug!("cannot release memory of startup code: {error}");
            }
        }
    }

    /// A line of `/proc/self/maps` that is code of a file, or the constants before the program's own.
    /// Pages that the loader wrote to before they were closed for writing are neither, and lie elsewhere.
    pub(super) fn unwritten(line: &str, program: &str) -> Option<Range<usize>> {
        let mut words = line.splitn(6, ' ');
        let (place, permissions, offset) = (words.next()?, words.next()?, words.next()?);
        let file = words.nth(2)?.trim_start();
        let is_code = permissions == "r-xp" && file.starts_with('/');
        let is_constants =
            permissions == "r--p" && offset.bytes().all(|digit| digit == b'0') && file == program;
        let (start, end) = place.split_once('-').filter(|_| is_code || is_constants)?;
        Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::linux::unwritten;

    #[test]
    fn only_code_and_preceding_constants_are_released() {
        let lines = [
            ("1000-3000 r--p 00000000 fe:00 12                 /opt/my host", Some(0x1000..0x3000)),
            ("3000-9000 r-xp 00002000 fe:00 12                 /opt/my host", Some(0x3000..0x9000)),
            ("9000-a000 r--p 00008000 fe:00 12                 /opt/my host", None),
            ("a000-b000 rw-p 00009000 fe:00 12                 /opt/my host", None),
            ("c000-d000 r--p 00000000 fe:00 13                 /lib/libc.so.6", None),
            ("d000-e000 r-xp 00001000 fe:00 13                 /lib/libc.so.6", Some(0xd000..0xe000)),
            ("e000-f000 rw-p 00000000 00:00 0 ", None),
            ("f000-f100 r-xp 00000000 00:00 0                  [vdso]", None),
            ("", None),
        ];
        for (line, place) in lines {
            assert_eq!(unwritten(line, "/opt/my host"), place, "{line}");
        }
    }

    #[test]
    fn released_code_still_runs() {
        super::give_back_code();
        assert_eq!("a,b".split(',').map(str::to_uppercase).collect::<Vec<_>>(), ["A", "B"]);
    }
}
