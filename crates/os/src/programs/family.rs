//! A program and everything it started, ended together.
//!
//! Most of a family shares a process group, which one signal ends. Who leaves it (`setsid`, a second
//! fork) still carries a mark: a variable of the environment, and a limit that nothing else uses and
//! that clearing the environment does not clear. They are looked for until none is left. Only a
//! program that takes pains to lose both marks and its group gets away; that is for a sandbox of the
//! system's to prevent.
//!
//! The folder in which a program starts.

use crate::failure::Failure;
use std::path::{Path, PathBuf};
use tokio::process::{Child, Command};

/// The variable that marks a family.
const VARIABLE: &str = "VALVEHOUSE_RUN";

/// The shell that marks a family before there is one, where there is a shell.
const SHELL: &str = "/bin/sh";
/// Sets the limit, by this shell's letter for it, and executes the program.
const BEGIN: &str = r#"ulimit -w "$0" 2>/dev/null || ulimit -x "$0" 2>/dev/null; exec "$@""#;

/// The marks by which a family is known.
#[derive(Debug)]
pub(super) struct Mark {
    /// The value of the variable: this run, behind the runs that this host itself is part of.
    value: String,
    own: String,
    /// The maximum number of file locks, which current kernels ignore.
    limit: u64,
}

impl Mark {
    pub(super) fn new() -> Self {
        let own = uuid::Uuid::new_v4().simple().to_string();
        let value = std::env::var(VARIABLE).map_or_else(|_| own.clone(), |outer| format!("{outer},{own}"));
        Self { value, own, limit: fastrand::u64(1 << 48..1 << 60) }
    }

    /// The command that starts a program, without the host's environment and with both marks from its first moment.
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

/// A running program and what it started; dropped, they are ended.
#[derive(Debug)]
pub(super) struct Family(Option<Kin>);

#[derive(Debug)]
struct Kin {
    group: Option<group::Group>,
    /// The folder is removed when no process works in it.
    _workplace: Workplace,
}

impl Family {
    /// The family of a program that has just been started.
    pub(super) fn of(child: &Child, mark: Mark, workplace: Workplace) -> Self {
        let group = child.id().and_then(|id| group::Group::new(id, mark.own, mark.limit));
        Self(Some(Kin { group, _workplace: workplace }))
    }

    /// Ends all of it; done when none is left.
    pub(super) async fn end(mut self) {
        let kin = Self(self.0.take());
        // Should it not come to run, what it holds is dropped, which ends the family as well.
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
        // Looking for the others takes longer than a dropped future may.
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

    /// The longest time for which a family is looked for.
    const MAX_TIME: Duration = Duration::from_secs(2);
    /// The number of looks in a row that must find nobody, where others come and go too fast to be sure at once.
    const SURE: u32 = 10;

    /// A process group and those who left it.
    #[derive(Debug)]
    pub(super) struct Group {
        leader: Pid,
        /// The oldest process of the family.
        born: u64,
        variable: String,
        limit: String,
    }

    impl Group {
        pub(super) fn new(leader: u32, variable: String, limit: u64) -> Option<Self> {
            let leader = Pid::from_raw(leader.cast_signed())?;
            // The shell has done this already where there is one. A program that is gone by now, or runs as
            // somebody else, has the other mark.
            let limited = Rlimit { current: Some(limit), maximum: Some(limit) };
            let _ = prlimit(Some(leader), Resource::Locks, limited);
            let born = Stat::of(leader.as_raw_nonzero().get()).map_or(0, |stat| stat.born);
            Some(Self { leader, born, variable, limit: limit.to_string() })
        }

        /// Ends those who share the group.
        pub(super) fn signal(&self) {
            // None left is what is wanted.
            let _ = kill_process_group(self.leader, Signal::KILL);
        }

        /// Ends everybody, and those who are started meanwhile.
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

        /// Looks at every process there is and ends each member at once, the latest first: those are
        /// the ones that start others. Who ends while it is looked at may have started another one just
        /// before, which is not among them.
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

        /// A member held so that no later process of the same number is meant.
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
            let says =
                |bytes: &[u8], mark: &str| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
            let environment = read("environ").unwrap_or_default();
            // Read last: it is there as long as the process is.
            let Ok(limits) = read("limits") else { return Role::Gone };
            let mut limits = limits.split(|byte| *byte == b'\n');
            let is_limited =
                limits.any(|line| line.starts_with(b"Max file locks") && says(line, &self.limit));
            if is_limited || says(&environment, &self.variable) { Role::Member } else { Role::Stranger }
        }
    }

    /// The findings of one look.
    struct Look {
        /// The number of members that were left.
        found: usize,
        /// Set if all processes were stopped while they were listed.
        is_whole: bool,
    }

    /// The role of a process in a family.
    enum Role {
        Member,
        Stranger,
        /// The program has ended, and its status is not read yet.
        Over {
            born: u64,
        },
        /// The program has ended altogether.
        Gone,
    }

    /// The numbers of all processes, the highest first.
    fn numbers() -> Vec<i32> {
        let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
        let numbers = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut numbers: Vec<i32> = numbers.collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers
    }

    /// The state of a process, as the system reports it.
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
            // The name stands in brackets and may hold anything, brackets included.
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

/// Elsewhere only the group is known.
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

/// The folder a program starts in.
#[derive(Debug)]
pub(super) struct Workplace {
    pub(super) path: PathBuf,
    /// `true` if it is made for this one run, and removed after it.
    fresh: bool,
}

impl Workplace {
    /// A granted folder.
    pub(super) fn granted(path: PathBuf) -> Self {
        Self { path, fresh: false }
    }

    /// An empty folder that is removed when this is dropped.
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

/// For this user only: others share the folder it is made in.
fn make(path: &std::path::Path) -> std::io::Result<()> {
    let mut folder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)
}
