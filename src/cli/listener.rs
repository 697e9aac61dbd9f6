//! The listening socket of a host that another process passes: systemd, or the host that this one replaces. And the
//! start of a host that replaces this one.

use valvehouse_terminal::{CommandError, Exit};

/// A listening socket.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) socket: std::net::TcpListener,
    /// Set if this host replaces the one that passed it.
    pub(super) is_handed_over: bool,
    /// Set if systemd passed it, which keeps it open when no host runs.
    pub(super) is_kept_open: bool,
}

impl Port {
    /// Returns the port of a socket that this process has bound.
    pub(super) fn own(socket: std::net::TcpListener) -> Self {
        Self { socket, is_handed_over: false, is_kept_open: false }
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use passing::take_sockets;
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) use passing::{Socket, Successor, passed, report_ready};
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub use unsupported::take_sockets;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) use unsupported::{Socket, Successor, passed, report_ready};

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod passing {
    use super::{CommandError, Exit, Port};
    use listenfd::ListenFd;
    use std::fs::File;
    use std::io::{self, Write as _};
    use std::net::TcpListener;
    use std::os::fd::{AsFd, IntoRawFd as _, OwnedFd};
    use std::process::Stdio;
    use std::sync::Mutex;
    use tokio::io::AsyncReadExt as _;
    use tokio::process::{Child, ChildStdout, Command};

    /// The number of the first passed socket, which is 3 unless a host passes it to its successor, as standard input.
    const FIRST: &str = "LISTEN_FDS_FIRST_FD";

    /// The variable by which a host passes its socket to its successor: [`KEPT`] if systemd passed it before.
    const HANDED_OVER: &str = "VALVEHOUSE_HANDED_OVER";
    const KEPT: &str = "kept";

    /// The sockets that were passed to this process and not used yet.
    static PASSED: Mutex<Option<ListenFd>> = Mutex::new(None);

    /// Takes the sockets that were passed to this process, and removes the variables that name them, so that no child
    /// process takes them for its own. Called before there are threads, which could read the variables meanwhile.
    pub fn take_sockets() {
        let sockets = ListenFd::from_env();
        if let Ok(mut passed) = PASSED.lock() {
            *passed = Some(sockets);
        }
    }

    /// Returns the listening socket that was passed to this process, once.
    pub(in super::super) fn passed() -> Result<Option<Port>, CommandError> {
        let taken = PASSED.lock().ok().and_then(|mut passed| passed.take());
        let Some(mut sockets) = taken.filter(|sockets| sockets.len() > 0) else { return Ok(None) };
        let invalid = |why: &dyn std::fmt::Display| {
            let help = "set one ListenStream= with a TCP address in the .socket unit, and not Accept=";
            let message = format!("cannot listen on the passed socket (LISTEN_FDS): {why}; {help}");
            CommandError::new(Exit::Unavailable, message)
        };
        if sockets.len() > 1 {
            return Err(invalid(&format_args!("expected 1 socket, got {}", sockets.len())));
        }
        let socket = sockets.take_tcp_listener(0).map_err(|error| invalid(&error))?;
        let Some(mut socket) = socket else { return Ok(None) };
        #[cfg(target_os = "linux")]
        if !rustix::net::sockopt::socket_acceptconn(&socket).is_ok_and(|listens| listens) {
            return Err(invalid(&"it is not a listening socket"));
        }
        let handed_over = std::env::var_os(HANDED_OVER);
        if handed_over.is_some() {
            let own = socket.try_clone().and_then(|own| free_standard_input(socket).map(|()| own));
            socket = own.map_err(|error| invalid(&error))?;
        }
        socket.set_nonblocking(true).map_err(|error| invalid(&error))?;
        let is_kept_open = handed_over.as_ref().is_none_or(|word| word == KEPT);
        Ok(Some(Port { socket, is_handed_over: handed_over.is_some(), is_kept_open }))
    }

    /// Replaces the socket at standard input, whose number must stay in use.
    fn free_standard_input(socket: TcpListener) -> io::Result<()> {
        let _ = socket.into_raw_fd();
        Ok(rustix::stdio::dup2_stdin(File::open("/dev/null")?)?)
    }

    /// Reports to the replaced host, which reads the standard output of its successor, that this one serves.
    pub(in super::super) fn report_ready() -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(b"\n").and_then(|()| out.flush())?;
        // Nobody reads it from here on.
        Ok(rustix::stdio::dup2_stdout(io::stderr())?)
    }

    /// A handle of the listening socket, for a successor.
    pub(in super::super) struct Socket(OwnedFd);

    impl Socket {
        pub(in super::super) fn of(listener: &impl AsFd) -> io::Result<Self> {
            listener.as_fd().try_clone_to_owned().map(Self)
        }
    }

    /// The host that replaces this one, while it starts.
    pub(in super::super) struct Successor {
        child: Child,
        out: ChildStdout,
    }

    impl Successor {
        /// Starts the program of this process anew, by the path by which it was started, with its arguments. The socket
        /// is one that systemd keeps open, or not.
        pub(in super::super) fn start(socket: &Socket, is_kept_open: bool) -> io::Result<Self> {
            let mut words = std::env::args_os();
            let program = words.next().ok_or_else(|| io::Error::other("its path is unknown"))?;
            let mut command = Command::new(program);
            let word = if is_kept_open { KEPT } else { "own" };
            command.args(words).env(HANDED_OVER, word).env("LISTEN_FDS", "1").env(FIRST, "0");
            // The watchdog of systemd expects the signs of the new process.
            command.env_remove("LISTEN_PID").env_remove("WATCHDOG_PID");
            command.stdin(Stdio::from(socket.0.try_clone()?)).stdout(Stdio::piped());
            let mut child = command.spawn()?;
            let out = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
            Ok(Self { child, out })
        }

        /// Waits until it serves. Returns the id of its process, or the reason why it ended. The wait can be repeated.
        pub(in super::super) async fn ready(&mut self) -> Result<u32, String> {
            if let (Ok(1), Some(id)) = (self.out.read(&mut [0]).await, self.child.id()) {
                return Ok(id);
            }
            Err(match self.child.wait().await {
                Ok(status) => format!("the new process ended with {status}"),
                Err(error) => error.to_string(),
            })
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod unsupported {
    use super::{CommandError, Port};
    use std::io;

    /// Does nothing, since no sockets are passed on this system.
    pub fn take_sockets() {}

    pub(in super::super) fn passed() -> Result<Option<Port>, CommandError> {
        Ok(None)
    }

    pub(in super::super) fn report_ready() -> io::Result<()> {
        Ok(())
    }

    pub(in super::super) struct Socket;

    impl Socket {
        pub(in super::super) fn of<T>(_: &T) -> io::Result<Self> {
            Ok(Self)
        }
    }

    pub(in super::super) enum Successor {}

    impl Successor {
        pub(in super::super) fn start(_: &Socket, _: bool) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in super::super) async fn ready(&mut self) -> Result<u32, String> {
            match *self {}
        }
    }
}
