//! `valvehouse nodes`: the hosts of the store, and the generation that each has applied.

use valvehouse_config::Config;
use valvehouse_host::NodeStatus;
use valvehouse_json::Json;
use valvehouse_store::{self as store, HostSeen, now};
use valvehouse_terminal::{CommandError, Console, Exit, clean, table};

pub(super) async fn run(config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let (stored, hosts) = if config.store.address.is_new() {
        // A command that only reads does not create a store.
        (0, Vec::new())
    } else {
        let store = store::open(&config.store).await?;
        let looked = (store.generation().await?, store.hosts().await?);
        store.close().await;
        looked
    };
    let behind = |host: &HostSeen| stored.saturating_sub(host.applied_generation);
    if out.is_json() {
        let nodes = hosts.iter().map(|host| {
            Json::from([
                ("node", host.host_id.as_str().into()),
                ("pid", i64::from(host.pid).into()),
                ("generation", host.applied_generation.into()),
                ("behind", behind(host).into()),
                ("version", NodeStatus::of(host).version.into()),
                ("since", NodeStatus::of(host).since.into()),
                ("error", NodeStatus::of(host).error.into()),
                ("seen_ms_ago", now().abs_diff(host.seen_at).into()),
            ])
        });
        let nodes: Vec<Json> = nodes.collect();
        out.json(&Json::from([("generation", stored.into()), ("nodes", nodes.into())]))?;
        return Ok(Exit::Done);
    }
    if hosts.is_empty() {
        out.note("no host is running on this store");
        return Ok(Exit::Done);
    }
    let paint = out.results();
    let mut rows = vec![
        ["NODE", "PROCESS", "VERSION", "GENERATION", "BEHIND", "SINCE", "SEEN", "ERROR"]
            .map(|word| paint.dim(word))
            .to_vec(),
    ];
    rows.extend(hosts.iter().map(|host| {
        let lag = match behind(host) {
            0 => "no".to_owned(),
            lag => paint.red(&lag.to_string()),
        };
        let seen = now().abs_diff(host.seen_at) as f64 / 1000.0;
        let node = NodeStatus::of(host);
        let since = match node.since {
            0 => String::new(),
            since => format!("{:.1} s", now().abs_diff(since) as f64 / 1000.0),
        };
        vec![
            paint.bold(&clean(&host.host_id)),
            host.pid.to_string(),
            clean(&node.version),
            host.applied_generation.to_string(),
            lag,
            since,
            format!("{seen:.1} s ago"),
            paint.red(&clean(node.error.as_deref().unwrap_or(""))),
        ]
    }));
    out.line(&table(&rows))?;
    out.note(&format!("the store is at generation {stored}"));
    Ok(Exit::Done)
}
