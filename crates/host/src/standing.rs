//! How the plugins of running hosts stand: what their calls cost, and which of them rest. A host writes
//! it down from time to time, so that commands can tell.

use super::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::time::Duration;
use valvehouse_core::breaker::Open;
use valvehouse_core::figures::Sum;
use valvehouse_json::{Json, Object};
use valvehouse_store::HostSeen;

/// Before the name of a provider where plugins go by their ids, which know no colon.
const PROVIDER: &str = "provider:";

/// How the plugins stand on all hosts together, and the providers.
#[derive(Debug, Default)]
pub struct Standing {
    plugins: BTreeMap<String, PluginStanding>,
    /// The providers that are left alone on some host.
    providers: BTreeMap<String, Open>,
    /// How many hosts told.
    pub hosts: usize,
}

/// How one plugin stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginStanding {
    /// What its calls came to, by hook or tool.
    pub sums: BTreeMap<String, Sum>,
    /// Where it rests on some host: since it broke again and again.
    pub rests: Option<Open>,
}

impl Standing {
    /// What a host tells of its own plugins: only of those that have something to tell.
    pub(super) fn of_snapshot(snapshot: &Snapshot) -> Json {
        let plugins = snapshot.plugins.values().filter_map(|plugin| {
            let script = plugin.script.as_ref()?;
            let sums = script.figures().sums();
            let rests = script.breaker.open();
            if sums.is_empty() && rests.is_none() {
                return None;
            }
            let sums: Object = sums.into_iter().map(|(name, sum)| (name.into(), sum.into_json())).collect();
            let told = Json::from([
                ("sums", sums.into()),
                ("rests", rests.map_or(Json::Null, |open| written(&open))),
            ]);
            Some(((*plugin.id).into(), told))
        });
        let providers = snapshot.plan().providers.iter().filter_map(|plan| {
            let name = format!("{PROVIDER}{}", plan.provider.name());
            Some((name.into(), Json::from([("rests", written(&plan.provider.rests()?))])))
        });
        plugins.chain(providers).collect::<Object>().into()
    }

    /// What all of these hosts tell, added up.
    pub fn told(hosts: &[HostSeen]) -> Self {
        let mut standing = Self { hosts: hosts.len(), ..Self::default() };
        for host in hosts {
            let Json::Object(plugins) = &host.tells else { continue };
            for (id, told) in plugins.entries() {
                if let Some(name) = id.strip_prefix(PROVIDER) {
                    let rests = read(&told.get("rests").unwrap_or_default());
                    standing.providers.insert(name.to_owned(), rests);
                    continue;
                }
                standing.plugins.entry(id.to_string()).or_default().add(&told);
            }
        }
        standing
    }

    /// How one plugin stands; None where no host has called it.
    pub fn of(&self, id: &str) -> Option<&PluginStanding> {
        self.plugins.get(id)
    }

    /// How a provider that is left alone stands; None while it is used.
    pub fn provider(&self, name: &str) -> Option<&Open> {
        self.providers.get(name)
    }
}

impl PluginStanding {
    fn add(&mut self, told: &Json) {
        if let Some(Json::Object(sums)) = told.get("sums") {
            for (name, sum) in sums.entries() {
                let own = self.sums.entry(name.to_string()).or_default();
                *own = own.and(Sum::from_json(&sum));
            }
        }
        if let Some(rests @ Json::Object(_)) = told.get("rests") {
            self.rests = Some(read(&rests));
        }
    }
}

fn written(open: &Open) -> Json {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Json::from([
        ("breaks", open.breaks.into()),
        ("since_ms", ms(open.since).into()),
        ("next_try_ms", ms(open.next_try).into()),
        ("cause", open.cause.as_str().into()),
    ])
}

fn read(json: &Json) -> Open {
    let number = |name: &str| json.get(name).and_then(|value| value.as_i64()).unwrap_or(0).unsigned_abs();
    Open {
        breaks: usize::try_from(number("breaks")).unwrap_or(0),
        since: Duration::from_millis(number("since_ms")),
        next_try: Duration::from_millis(number("next_try_ms")),
        cause: json.text("cause").unwrap_or_default().to_string(),
    }
}
