//! A program and all processes that it started, killed together, and the folder in which it starts.
//!
//! Most of these processes share a process group, which one signal kills. A process that leaves the group
//! (`setsid`, a second fork) still has a mark: an environment variable, and a resource limit that nothing
//! else uses and that clearing the environment does not remove. Marked processes are searched until none is
//! left. Only a program that deliberately loses both marks and its group escapes; a sandbox of the operating
//! system has to prevent that.

use crate::failure::Failure;
use std::path::{Path, PathBuf};
use tokio::process::{Child, Command};

/// The environment variable that marks the processes.
const VARIABLE: &str = "VALVEHOUSE_RUN";

/// The shell that marks a process before the program starts, if there is a shell.
const SHELL: &str = "/bin/sh";
/// A script that sets the limit, by either letter that shells use for it, and executes the program.
const BEGIN: &str = r#"ulimit -w "$0" 2>/dev/null || ulimit -x "$0" 2>/dev/null; exec "$@""#;

/// The marks of the processes of one run.
#[derive(Debug)]
pub(super) struct Mark {
    /// The value of the variable: the runs that this host itself belongs to, then this run.
    value: String,
    own: String,
    /// The limit of file locks, which current kernels ignore.
    limit: u64,
}

impl Mark {
    pub(super) fn new() -> Self {
        let own = uuid::Uuid::new_v4().simple().to_string();
        let value = std::env::var(VARIABLE).map_or_else(|_| own.clone(), |outer| format!("{outer},{own}"));
        Self { value, own, limit: fastrand::u64(1 << 48..1 << 60) }
    }

    /// Returns the command that starts a program without the host's environment, and with both marks from the
    /// start.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = if cfg!(target_os = "linux") && Path::new(SHELL).exists() {
            let mut shell = Command::new(SHELL);
            shell.args(["-c", BEGIN, &self.limit.to_string()]).arg(program);
            shell
        } else {
            Command::new(program)
        };
        command.env_clear().env(VARIABLE, &self.value);
        command
    }
}

/// A running program and the processes that it started, killed when this is dropped.
#[derive(Debug)]
pub(super) struct Family(Option<Kin>);

#[derive(Debug)]
struct Kin {
    group: Option<group::Group>,
    /// The folder, removed when no process is running in it.
    _workplace: Workplace,
}

impl Family {
    /// Creates the family of a program that has just started.
    pub(super) fn of(child: &Child, mark: Mark, workplace: Workplace) -> Self {
        let group = child.id().and_then(|id| group::Group::new(id, mark.own, mark.limit));
        Self(Some(Kin { group, _workplace: workplace }))
    }

    /// Kills all processes, and returns when none is left.
    pub(super) async fn end(mut self) {
        let kin = Self(self.0.take());
        // If the task does not run, it is dropped, which kills the processes as well.
        let _ = tokio::task::spawn_blocking(move || kin.end_here()).await;
    }

    fn end_here(mut self) {
        if let Some(Kin { group: Some(group), .. }) = &self.0 {
            group.end();
        }
        self.0 = None;
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        let Some(kin) = self.0.take() else { return };
        if let Some(group) = &kin.group {
            group.signal();
        }
        // Searching for the other processes takes too long for a dropped future.
        let looking = std::thread::Builder::new().name("end-programs".into());
        let spawned = looking.spawn(move || {
            if let Some(group) = &kin.group {
                group.end();
            }
        });
        if let Err(error) = spawned {
            tracing::warn!("cannot look for leftover processes of a program: {error}");
        }
    }
}

#[cfg(target_os = "linux")]
mod group {
    use rustix::fd::OwnedFd;
    use rustix::process::{
        Pid, PidfdFlags, Resource, Rlimit, Signal, kill_process_group, pidfd_open, pidfd_send_signal, prlimit,
    };
    use std::collections::HashSet;
    use std::time::{Duration, Instant};

    /// The time limit of the search for processes.
    const MAX_TIME: Duration = Duration::from_secs(2);
    /// The number of consecutive scans without a process after which the search ends, if other processes
    /// start and end too fast for a complete scan.
    const SURE: u32 = 10;

    /// A process group, and the processes that left it.
    #[derive(Debug)]
    pub(super) struct Group {
        leader: Pid,
        /// The start time of the oldest process of the family.
        born: u64,
        variable: String,
        limit: String,
    }

    impl Group {
        pub(super) fn new(leader: u32, variable: String, limit: u64) -> Option<Self> {
            let leader = Pid::from_raw(leader.cast_signed())?;
            // The shell has set the limit already if there is one. A program that has ended, or runs as
            // another user, has the other mark.
            let limited = Rlimit { current: Some(limit), maximum: Some(limit) };
            let _ = prlimit(Some(leader), Resource::Locks, limited);
            let born = Stat::of(leader.as_raw_nonzero().get()).map_or(0, |stat| stat.born);
            Some(Self { leader, born, variable, limit: limit.to_string() })
        }

        /// Kills the processes of the group.
        pub(super) fn signal(&self) {
            // An error means that no process is left.
            let _ = kill_process_group(self.leader, Signal::KILL);
        }

        /// Kills all processes, including those that start meanwhile.
        pub(super) fn end(&self) {
            let end = Instant::now() + MAX_TIME;
            let (mut nobody, mut over) = (0, HashSet::new());
            self.signal();
            loop {
                let Look { found, is_whole } = self.look(&mut over);
                nobody = if found == 0 { nobody + 1 } else { 0 };
                if found == 0 && (is_whole || nobody == SURE) {
                    return;
                }
                if Instant::now() > end {
                    tracing::warn!(found, "cannot end leftover processes of a program");
                    return;
                }
                if found == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }

        /// Scans all processes and kills each member at once, the latest first, because those start others. A
        /// process that ends during the scan may have started another one just before, which is not included.
        fn look(&self, over: &mut HashSet<(i32, u64)>) -> Look {
            let mut look = Look { found: 0, is_whole: true };
            for number in numbers() {
                match self.role(number) {
                    Role::Stranger => {}
                    Role::Gone => look.is_whole = false,
                    Role::Over { born } => look.is_whole &= !over.insert((number, born)),
                    Role::Member => match self.held(number) {
                        Some(process) => {
                            look.found += 1;
                            let _ = pidfd_send_signal(process, Signal::KILL);
                        }
                        None => look.is_whole = false,
                    },
                }
            }
            look
        }

        /// Returns a handle of a member that cannot refer to a later process with the same id.
        fn held(&self, number: i32) -> Option<OwnedFd> {
            let held = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
            matches!(self.role(number), Role::Member).then_some(held)
        }

        fn role(&self, number: i32) -> Role {
            let Some(stat) = Stat::of(number) else { return Role::Gone };
            let leader = self.leader.as_raw_nonzero().get();
            if stat.born < self.born {
                Role::Stranger
            } else if stat.is_over {
                Role::Over { born: stat.born }
            } else if stat.group == leader || stat.session == leader {
                Role::Member
            } else {
                self.marked(number)
            }
        }

        fn marked(&self, number: i32) -> Role {
            let read = |what: &str| std::fs::read(format!("/proc/{number}/{what}"));
            let has_line =
                |bytes: &[u8], mark: &str| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
            let environment = read("environ").unwrap_or_default();
            // Read last, because the file exists as long as the process.
            let Ok(limits) = read("limits") else { return Role::Gone };
            let mut limits = limits.split(|byte| *byte == b'\n');
            let is_limited =
                limits.any(|line| line.starts_with(b"Max file locks") && has_line(line, &self.limit));
            if is_limited || has_line(&environment, &self.variable) { Role::Member } else { Role::Stranger }
        }
    }

    /// The result of a scan.
    struct Look {
        /// The number of members found.
        found: usize,
        /// `true` if no process ended during the scan.
        is_whole: bool,
    }

    /// The relation of a process to a family.
    enum Role {
        Member,
        Stranger,
        /// The process has ended, and its status is not read yet.
        Over {
            born: u64,
        },
        /// The process no longer exists.
        Gone,
    }

    /// Returns the ids of all processes, highest first.
    fn numbers() -> Vec<i32> {
        let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
        let numbers = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut numbers: Vec<i32> = numbers.collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers
    }

    /// The state of a process reported by the system.
    struct Stat {
        is_over: bool,
        group: i32,
        session: i32,
        born: u64,
    }

    impl Stat {
        fn of(number: i32) -> Option<Self> {
            let text = std::fs::read(format!("/proc/{number}/stat")).ok()?;
            let text = String::from_utf8_lossy(&text);
            // The name is in parentheses and may contain any character, including parentheses.
            let (_, rest) = text.rsplit_once(')')?;
            let fields: Vec<&str> = rest.split_whitespace().collect();
            Some(Self {
                is_over: matches!(*fields.first()?, "Z" | "X"),
                group: fields.get(2)?.parse().ok()?,
                session: fields.get(3)?.parse().ok()?,
                born: fields.get(19)?.parse().ok()?,
            })
        }
    }
}

/// On other systems, only the process group is known.
#[cfg(not(target_os = "linux"))]
mod group {
    #[derive(Debug)]
    pub(super) struct Group(#[cfg(target_os = "macos")] rustix::process::Pid);

    impl Group {
        #[cfg(target_os = "macos")]
        pub(super) fn new(leader: u32, _: String, _: u64) -> Option<Self> {
            rustix::process::Pid::from_raw(leader.cast_signed()).map(Self)
        }

        #[cfg(not(target_os = "macos"))]
        pub(super) fn new(_: u32, _: String, _: u64) -> Option<Self> {
            None
        }

        pub(super) fn signal(&self) {
            #[cfg(target_os = "macos")]
            let _ = rustix::process::kill_process_group(self.0, rustix::process::Signal::KILL);
        }

        pub(super) fn end(&self) {
            self.signal();
        }
    }
}

/// The folder in which a program starts.
#[derive(Debug)]
pub(super) struct Workplace {
    pub(super) path: PathBuf,
    /// `true` if it was created for this run and is removed afterwards.
    fresh: bool,
}

impl Workplace {
    /// Creates a reference to a granted folder.
    pub(super) fn granted(path: PathBuf) -> Self {
        Self { path, fresh: false }
    }

    /// Creates an empty folder that is removed when this is dropped.
    pub(super) fn fresh() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("valvehouse-{}", uuid::Uuid::new_v4().simple()));
        make(&path).map_err(|error| {
            Failure::new(format!("cannot create the folder {} to run a program in: {error}", path.display()))
        })?;
        Ok(Self { path, fresh: true })
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if self.fresh
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Creates a folder for this user only, because its parent is shared.
fn make(path: &std::path::Path) -> std::io::Result<()> {
    let mut folder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)
}
