//! A server of Postgres of the test's own: in a temporary folder, on a socket in it.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time that a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// The user that a server runs as where the tests are root's, which Postgres refuses: `nobody`.
const NOBODY: u32 = 65_534;

/// A running server, which ends with this.
pub struct Postgres {
    folder: TempDir,
    server: Option<Child>,
    databases: AtomicU32,
}

impl Postgres {
    /// Starts a server; `None` where Postgres is not installed and `VALVEHOUSE_REQUIRE_POSTGRES` is not set.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            let is_required = std::env::var_os("VALVEHOUSE_REQUIRE_POSTGRES").is_some();
            assert!(!is_required, "Postgres is not installed: there is no initdb");
            println!("skipped: Postgres is not installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        if is_root() {
            std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = folder.path().join("data");
        let mut initdb = command(&programs.join("initdb"), folder.path());
        initdb
            .args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--username=valvehouse", "-D"])
            .arg(&data);
        let made = initdb.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut this = Self { folder, server: None, databases: AtomicU32::new(0) };
        this.resume();
        Some(this)
    }

    /// Starts the server again after [`Postgres::kill`].
    pub fn resume(&mut self) {
        let programs = programs().unwrap();
        let folder = self.folder.path();
        let mut server = command(&programs.join("postgres"), folder);
        server.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
        server.args([
            "-c",
            "listen_addresses=",
            "-c",
            "max_connections=200",
            "-c",
            "autovacuum=off",
            "-c",
            "fsync=off",
        ]);
        self.server = Some(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let since = Instant::now();
        while !self.answers(&programs) {
            assert!(since.elapsed() < PATIENCE, "Postgres does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn answers(&self, programs: &Path) -> bool {
        let mut ready = command(&programs.join("pg_isready"), self.folder.path());
        ready.arg("-q").arg("-h").arg(self.folder.path()).status().unwrap().success()
    }

    /// Ends the server as a power failure would.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            // Its children end with it: they notice that it is gone.
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// Makes an empty database, and returns its URL.
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Relaxed));
        let folder = self.folder.path();
        let mut create = command(&programs().unwrap().join("createdb"), folder);
        create.args(["-U", "valvehouse", "-h"]).arg(folder).arg(&name);
        let made = create.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let socket = folder.display().to_string().replace('/', "%2F");
        format!("postgres://valvehouse@{socket}/{name}")
    }
}

impl Postgres {
    /// Runs a statement in the database of this URL.
    pub fn run(&self, url: &str, statement: &str) {
        let mut psql = command(&programs().unwrap().join("psql"), self.folder.path());
        let ran = psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-c", statement, url]).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command that runs in this folder, not as root.
fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}

/// The folder of the server's programs: Debian has them outside of `PATH`.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = debian.collect();
    folders.sort();
    folders
        .into_iter()
        .rev()
        .chain(std::env::split_paths(&path))
        .find(|folder| folder.join("initdb").is_file())
}
