//! How many files and connections a serving process may have open.

/// Enough for tens of thousands of chats; programs that tools start walk through all they may have.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const ENOUGH: u64 = 65_536;

/// Takes what the system allows without being asked. A chat is two connections, so that the usual 1024
/// would turn people away at five hundred.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) fn take_enough() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        tracing::warn!("this process may have {current:?} files and connections open and not more: {error}");
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) fn take_enough() {}
