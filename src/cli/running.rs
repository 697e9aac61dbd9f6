//! The addresses of the hosts that run on a project. Each host writes its address to a file while it runs, so
//! that commands find it at any port.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder of these files, in `.valvehouse/` of a project. Each file is named by the id of its process.
const FOLDER: &str = "hosts";
/// The time limit for a connection to a host on this computer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The file with the address of this host, deleted when this is dropped.
pub(super) struct Announcement(Option<PathBuf>);

impl Announcement {
    /// Writes the file, and deletes those of killed hosts. A failure to write it is not an error.
    pub(super) fn of(project: &Path, address: SocketAddr) -> Self {
        let folder = folder(project);
        for (file, left) in files(&folder) {
            if left.is_none_or(|left| !accepts(left)) {
                // Another host that is starting may have deleted it.
                let _ = fs::remove_file(file);
            }
        }
        let file = folder.join(std::process::id().to_string());
        Self(match write(&file, address) {
            Ok(()) => Some(file),
            Err(error) => {
                tracing::debug!("cannot write {}: {error}", file.display());
                None
            }
        })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.as_ref().map(fs::remove_file) {
            tracing::debug!("cannot delete the file of this host's address: {error}");
        }
    }
}

/// Returns the addresses at which hosts that run on a project accept connections, in order.
pub(super) fn addresses(project: &Path) -> Vec<SocketAddr> {
    let mut found: Vec<_> = files(&folder(project))
        .filter_map(|(_, address)| address)
        .filter(|address| accepts(*address))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn folder(project: &Path) -> PathBuf {
    project.join(".valvehouse").join(FOLDER)
}

fn write(file: &Path, address: SocketAddr) -> io::Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(file))?;
    fs::write(file, format!("{}\n", reachable(address)))
}

/// Returns the files of a folder with their addresses; `None` for an invalid file.
fn files(folder: &Path) -> impl Iterator<Item = (PathBuf, Option<SocketAddr>)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.map(|file| {
        let text = fs::read_to_string(&file).ok();
        let address = text.and_then(|text| text.trim().parse().ok());
        (file, address)
    })
}

/// Returns an address to connect to; an unspecified address is replaced by the loopback address.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn accepts(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, TIMEOUT).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_host_is_found_while_it_runs() {
        let project = tempfile::tempdir().unwrap();
        assert!(addresses(project.path()).is_empty());
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let address = listener.local_addr().unwrap();
        let announcement = Announcement::of(project.path(), address);
        assert_eq!(addresses(project.path()), [SocketAddr::from(([127, 0, 0, 1], address.port()))]);
        drop(announcement);
        assert!(addresses(project.path()).is_empty());
    }

    #[test]
    fn a_leftover_file_of_a_killed_host_is_ignored_and_deleted() {
        let project = tempfile::tempdir().unwrap();
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let folder = folder(project.path());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("1"), gone.to_string()).unwrap();
        fs::write(folder.join("2"), "torn").unwrap();
        assert!(addresses(project.path()).is_empty());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _announcement = Announcement::of(project.path(), listener.local_addr().unwrap());
        let left: Vec<_> = files(&folder).collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
