//! The metrics of the host: its generation, its reloads and its store.

use super::families::Families;
use crate::ready;
use valvehouse_executor as executor;
use valvehouse_host::app::App;
use valvehouse_store::now;

pub(super) async fn collect(app: &App, families: &mut Families) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    families.gauge("build_info", "Always 1; its label is the running version.").add(&version, 1.0);
    let generation = app.host.snapshot().generation;
    families.gauge("generation", "The running generation.").add(&[], generation as f64);
    let looks = app.host.looks();
    let mut reloads = families
        .counter("reloads_total", "Generations loaded; faulty: at least one plugin or file does not load.");
    for (result, count) in looks.reloads() {
        reloads.add(&[("result", result)], count as f64);
    }
    let times = looks.times();
    families
        .histogram("reload_duration_seconds", "Time from the scan of the folders to the swap, in seconds.")
        .spread(&[], &times);
    let ago = looks.ago().as_secs_f64();
    families
        .gauge("last_scan_age_seconds", "Time since the last scan of the folders and the store, in seconds.")
        .add(&[], ago);
    let running = app.traces.running();
    families.gauge("turns_running", "Chats, runs and background tasks in progress.").add(&[], running as f64);
    families
        .counter("script_threads_lost_total", "Threads abandoned because their script did not stop.")
        .add(&[], executor::lost_so_far() as f64);
    families
        .gauge("script_threads_lost", "Abandoned threads that are still running.")
        .add(&[], executor::lost_now() as f64);
    let work = app.host.after_answers().counts();
    let mut counter = families.counter(
        "after_answer_total",
        "Background tasks of scripts after responses (`after`, `done`), by result.",
    );
    for (end, count) in [("done", work.done), ("failed", work.failed), ("dropped", work.dropped)] {
        counter.add(&[("end", end)], count as f64);
    }
    families
        .gauge("after_answer_pending", "Background tasks of scripts that are waiting or running.")
        .add(&[], work.pending as f64);
    let scheduled = app.schedule.counts();
    let mut counter = families.counter(
        "scheduled_total",
        "Scheduled calls of scripts (`tick`, and `pipes` and `tools` with a `ttl`), by result.",
    );
    for (end, count) in [("done", scheduled.done), ("failed", scheduled.failed)] {
        counter.add(&[("end", end)], count as f64);
    }
    families
        .gauge("scheduled_running", "Scheduled calls of scripts in progress.")
        .add(&[], scheduled.running as f64);
    store(app, families).await;
}

async fn store(app: &App, families: &mut Families) {
    let hosts = ready::hosts(app).await;
    let up = u8::from(hosts.is_ok());
    families.gauge("store_up", "1 while the store is available, else 0.").add(&[], up.into());
    if let Some(snapshot) = app.host.store().snapshot() {
        let age = now().saturating_sub(snapshot.at) as f64 / 1000.0;
        families
            .gauge(
                "store_snapshot_age_seconds",
                "Age of the snapshot from which this host starts while the store is unavailable, in seconds.",
            )
            .add(&[], age);
        families
            .gauge("store_snapshot_generation", "Generation of the store in the snapshot.")
            .add(&[], snapshot.generation as f64);
    }
    let refused = u8::from(app.host.refused().is_some());
    families
        .gauge("generation_refused", "1 while this host rejects the latest generation of the store, else 0.")
        .add(&[], refused.into());
    if let Ok(hosts) = hosts {
        let lag = hosts.stored.saturating_sub(app.host.applied_generation());
        families
            .gauge("generation_lag", "Changes of the store that this host has not applied.")
            .add(&[], lag as f64);
        families.gauge("hosts", "Hosts on the same store.").add(&[], hosts.all as f64);
        families
            .gauge("hosts_agreeing", "Hosts that have applied the latest change of the store.")
            .add(&[], hosts.agreeing as f64);
    }
    let mut failures =
        families.counter("store_failures_total", "Failed operations of the store, by error kind.");
    for (kind, count) in app.host.store().error_counts() {
        failures.add(&[("error", kind.as_str())], count as f64);
    }
    let queue = app.traces.queue().map_or(0, |queue| queue.waiting());
    families.gauge("traces_pending", "Requests that ended and wait to be stored.").add(&[], queue as f64);
    families
        .counter(
            "traces_dropped_total",
            "Requests that were not stored: too many waited, or the store refused them.",
        )
        .add(&[], app.trace_store.dropped() as f64);
    let waiting = app.host.kv().waiting();
    families
        .gauge("kv_writes_pending", "Changes of kv entries that wait to be written.")
        .add(&[], waiting as f64);
    families
        .gauge("vector_memory_bytes", "Size of the vectors of scripts and memories that are held in memory.")
        .add(&[], app.host.vectors().held_bytes() as f64);
    families
        .gauge("request_memory_bytes", "Memory that the bodies and answers of running requests count for.")
        .add(&[], app.memory.held() as f64);
}
