//! The memory that this process may use.

use std::path::{Path, PathBuf};

/// Returns the memory of the machine, or of the control groups of this process if their limit is lower, in bytes; `None`
/// if the system does not tell.
pub fn available_memory() -> Option<u64> {
    available_below(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn available_below(proc: &Path, groups: &Path) -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = read(&proc.join("meminfo")).and_then(|text| total_of(&text));
    // Version 2 has one hierarchy, with an empty list of controllers.
    let own = read(&proc.join("self/cgroup"))
        .and_then(|text| text.lines().find_map(|line| Some(line.strip_prefix("0::/")?.to_owned())))
        .map_or_else(PathBuf::new, PathBuf::from);
    let limits = own.ancestors().map(|group| groups.join(group).join("memory.max"));
    let version_1 = groups.join("memory/memory.limit_in_bytes");
    let limits = limits.chain([version_1]).filter_map(|path| read(&path)?.trim().parse().ok());
    limits.chain(machine).min()
}

/// Returns the total memory in the text of `/proc/meminfo`.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "MemTotal:       16000 kB\nMemFree:         100 kB\n";

    /// Writes a system with these files and returns its memory.
    fn memory(files: &[(&str, &str)]) -> Option<u64> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        available_below(&folder.path().join("proc"), &folder.path().join("groups"))
    }

    #[test]
    fn the_lowest_limit_of_the_machine_and_of_all_control_groups_applies() {
        let machine = ("proc/meminfo", MACHINE);
        let own = ("proc/self/cgroup", "0::/system.slice/valvehouse.service\n");
        assert_eq!(memory(&[machine]), Some(16_384_000));
        assert_eq!(memory(&[machine, ("groups/memory.max", "4096000\n")]), Some(4_096_000));
        assert_eq!(memory(&[machine, ("groups/memory.max", "max\n")]), Some(16_384_000));
        let service = ("groups/system.slice/valvehouse.service/memory.max", "max\n");
        let slice = ("groups/system.slice/memory.max", "5000\n");
        assert_eq!(memory(&[machine, own, service, slice]), Some(5_000));
        assert_eq!(memory(&[machine, ("groups/memory/memory.limit_in_bytes", "7000\n")]), Some(7_000));
        assert_eq!(memory(&[("proc/meminfo", "MemTotal: many kB\n")]), None);
        assert_eq!(memory(&[]), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_memory() {
        assert!(available_memory().is_some_and(|bytes| bytes > 64 << 20));
    }
}
