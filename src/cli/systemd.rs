//! Notifications to systemd, if it started this process.

use std::time::Duration;

/// A notification to systemd.
pub(super) enum Word {
    /// The host is serving.
    Ready,
    /// The settings are being reloaded.
    Reloading,
    /// New requests are rejected.
    Stopping,
    /// The process with this id serves in place of this one.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only systemd reads it"))]
    HandedOver(u32),
}

#[cfg(target_os = "linux")]
pub(super) fn notify(word: &Word) {
    use sd_notify::NotifyState;
    let result = match word {
        Word::Ready => sd_notify::notify(&[NotifyState::Ready]),
        Word::Reloading => NotifyState::monotonic_usec_now()
            .and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now])),
        Word::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        Word::HandedOver(id) => sd_notify::notify(&[NotifyState::MainPid(*id)]),
    };
    if let Err(error) = result {
        tracing::warn!("cannot report the status of this host to systemd: {error}");
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn notify(_: &Word) {}

/// Notifies the watchdog of systemd, if enabled, twice per interval.
pub(super) async fn live() {
    let Some(within) = watched() else { return };
    let mut pulse = tokio::time::interval(within / 2);
    loop {
        pulse.tick().await;
        pulse_once();
    }
}

#[cfg(target_os = "linux")]
fn watched() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|within| !within.is_zero())
}

#[cfg(target_os = "linux")]
fn pulse_once() {
    // If the notification is lost, the service manager restarts the host.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
}

#[cfg(not(target_os = "linux"))]
fn watched() -> Option<Duration> {
    None
}

#[cfg(not(target_os = "linux"))]
fn pulse_once() {}
