//! A server of Postgres of the test's own: in a temporary folder, on a socket in it.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// The time that a server may take to start.
const TIMEOUT: Duration = Duration::from_secs(60);
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
        make_data(&programs, folder.path());
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
        server.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = server.spawn().unwrap();
        let since = Instant::now();
        while !self.answers(&programs) {
            assert!(since.elapsed() < TIMEOUT, "Postgres does not start");
            std::thread::sleep(Duration::from_millis(50));
            // It gives up while children of a killed server still hold its memory.
            if running.try_wait().unwrap().is_some() {
                running = server.spawn().unwrap();
            }
        }
        self.server = Some(running);
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

    /// Returns what a statement answers, as text.
    pub fn ask(&self, database: &str, statement: &str) -> String {
        let mut psql = command(&programs().unwrap().join("psql"), self.folder.path());
        let output = psql.args(["-XtA", "-c", statement]).arg(database).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
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
    /// Makes an empty database in place of the one at this URL.
    pub fn replace_database(&self, url: &str) {
        let name = url.rsplit('/').next().unwrap();
        let folder = self.folder.path();
        for program in ["dropdb", "createdb"] {
            let mut command = command(&programs().unwrap().join(program), folder);
            if program == "dropdb" {
                command.arg("--force");
            }
            let done = command.args(["-U", "valvehouse", "-h"]).arg(folder).arg(name).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }

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

/// A pgbouncer in transaction mode before a server, which ends with this.
pub struct PgBouncer {
    folder: TempDir,
    process: Child,
}

impl PgBouncer {
    /// Starts one; `None` where it is not installed and `VALVEHOUSE_REQUIRE_POSTGRES` is not set.
    pub fn start(server: &Postgres) -> Option<Self> {
        let Some(program) = find("pgbouncer", &["/usr/sbin", "/usr/local/sbin"]) else {
            let is_required = std::env::var_os("VALVEHOUSE_REQUIRE_POSTGRES").is_some();
            assert!(!is_required, "pgbouncer is not installed");
            println!("skipped: pgbouncer is not installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(of("users"), "\"valvehouse\" \"\"\n").unwrap();
        let settings = format!(
            "[databases]\n* = host={} port=5432\n[pgbouncer]\nlisten_addr =\nlisten_port = 5432\n\
             unix_socket_dir = {}\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = 6\nmax_client_conn = 300\n\
             server_login_retry = 1\n",
            server.folder.path().display(),
            folder.path().display(),
            of("users")
        );
        std::fs::write(of("pgbouncer.ini"), settings).unwrap();
        if is_root() {
            for path in [folder.path().to_owned(), of("users").into(), of("pgbouncer.ini").into()] {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let mut bouncer = command(&program, folder.path());
        bouncer.arg("-q").arg(of("pgbouncer.ini")).stdin(Stdio::null());
        let process = bouncer.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let this = Self { folder, process };
        let since = Instant::now();
        while !this.folder.path().join(".s.PGSQL.5432").exists() {
            assert!(since.elapsed() < TIMEOUT, "pgbouncer does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(this)
    }

    /// Returns the URL of a database of the server by way of it.
    pub fn url(&self, database: &str) -> String {
        through(database, self.folder.path())
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A network between clients and a server, which can go away without a word.
pub struct Proxy {
    folder: TempDir,
    is_dead: watch::Sender<bool>,
}

impl Proxy {
    /// Passes on what goes to a server and comes back, within the runtime of the caller.
    pub fn start(server: &Postgres) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let (is_dead, socket) = (watch::Sender::new(false), server.folder.path().join(".s.PGSQL.5432"));
        let dead = is_dead.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, socket.clone(), dead.subscribe()));
            }
        });
        Self { folder, is_dead }
    }

    /// Stops forwarding; existing connections stay silent.
    pub fn die(&self) {
        self.is_dead.send_replace(true);
    }

    /// Passes on again what goes over new connections.
    pub fn live(&self) {
        self.is_dead.send_replace(false);
    }

    /// Returns the URL of a database of the server by way of it.
    pub fn url(&self, database: &str) -> String {
        through(database, self.folder.path())
    }
}

async fn pass(mut client: UnixStream, socket: PathBuf, mut dies: watch::Receiver<bool>) {
    // A server that restarts refuses for a moment.
    let Ok(mut server) = UnixStream::connect(socket).await else { return };
    let died = async { dies.wait_for(|dead| *dead).await.is_ok() };
    tokio::select! {
        is_dead = died => if is_dead { std::future::pending::<()>().await },
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
    }
}

/// Returns the URL of a database by way of the socket in another folder.
fn through(database: &str, folder: &Path) -> String {
    let name = database.rsplit('/').next().unwrap_or_default();
    let socket = folder.display().to_string().replace('/', "%2F");
    format!("postgres://valvehouse@{socket}/{name}")
}

/// Makes the folder `data` of a new server: `initdb` runs once a build, since it takes seven times as long as a copy.
fn make_data(programs: &Path, folder: &Path) {
    let (kept, data) = (kept_data(programs), folder.join("data"));
    if kept.is_dir() && copy(&kept, &data) {
        return;
    }
    let _ = std::fs::remove_dir_all(&data);
    let mut initdb = command(&programs.join("initdb"), folder);
    initdb.args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--username=valvehouse", "-D"]).arg(&data);
    let made = initdb.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // Another test may do the same: a copy gets its name when it is complete.
    let unfinished = tempfile::tempdir_in(kept.parent().unwrap()).unwrap();
    let complete = unfinished.path().join("data");
    if copy(&data, &complete) {
        let _ = std::fs::rename(complete, kept);
    }
}

/// The folder beside this build that holds what `initdb` of this installation made.
fn kept_data(programs: &Path) -> PathBuf {
    use std::os::unix::fs::MetadataExt as _;
    let installed = std::fs::metadata(programs.join("postgres")).map_or(0, |program| program.mtime());
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join(format!("postgres-{installed}"))
}

/// Copies a folder with the owners and rights of its files; `false` if that is not possible, as with another user's.
fn copy(from: &Path, to: &Path) -> bool {
    Command::new("cp")
        .arg("-a")
        .args([from, to])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
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
    let mut folders: Vec<PathBuf> = debian.collect();
    folders.sort();
    folders.reverse();
    find("initdb", &folders).and_then(|program| program.parent().map(Path::to_owned))
}

/// Looks for a program in these folders, then in those of `PATH`.
fn find(program: &str, folders: &[impl AsRef<Path>]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.iter().map(|folder| folder.as_ref().to_owned());
    folders.chain(std::env::split_paths(&path)).map(|folder| folder.join(program)).find(|it| it.is_file())
}
