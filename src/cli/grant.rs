//! `valvehouse grant`: the capabilities of plugins and native tools.

use super::args;
use super::history::refused;
use super::project::{self, Project, Reach};
use std::collections::BTreeSet;
use valvehouse_config::{Capability, Config, GrantWord};
use valvehouse_core::text::nearest;
use valvehouse_host::admin::{CurrentGrants, GrantSubject, grant_words};
use valvehouse_host::builtin::GUARDED;
use valvehouse_json::Json;
use valvehouse_store as store;
use valvehouse_terminal::{CommandError, Console, Exit, clean, report, table};

pub(super) async fn run(args: &args::Grant, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let Some(id) = args.id.as_deref() else { return list(config, out).await };
    let words = grant_words(&args.capabilities).map_err(refused)?;
    if args.revoke && words.is_empty() {
        // The project is not read, so this also works for stored grants that cannot be read.
        let store = store::open_to_read(&config.store).await?;
        let subject = Subject(GrantSubject { id, config, store: &store });
        let generation = subject.0.revoke(&words, &project::author()).await.map_err(refused)?;
        let exit = subject.print(&[], generation, out).await?;
        store.close().await;
        return Ok(exit);
    }
    let project = match words.is_empty() {
        true => Project::look(config).await?,
        false => Project::look_to_change(config).await?,
    };
    let subject = Subject(GrantSubject { id, config, store: &project.store });
    if words.is_empty() || args.revoke {
        subject.must_be_there(&project).await?;
    } else {
        subject.must_be_known(&project)?;
    }
    let exit = if words.is_empty() {
        subject.show(None, out).await?;
        Exit::Done
    } else {
        let by = project::author();
        let generation = match args.revoke {
            true => subject.0.revoke(&words, &by).await,
            false => subject.0.grant(&words, &by).await,
        };
        let generation = generation.map_err(refused)?;
        if !args.revoke {
            subject.warn(&words, out);
        }
        subject.print(&touched(&words), generation, out).await?
    };
    project.store.close().await;
    Ok(exit)
}

/// Lists the grants of all plugins and native tools.
async fn list(config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let store = store::open_to_read(&config.store).await?;
    let stored = store.grants().await?;
    let ids: BTreeSet<&str> =
        config.grants.keys().map(String::as_str).chain(stored.iter().map(|(id, _)| &**id)).collect();
    let (mut all, mut rows) = (Vec::new(), Vec::new());
    for id in ids {
        let subject = Subject(GrantSubject { id, config, store: &store });
        let now = subject.now().await?;
        let own = subject.rows(&now, out).into_iter();
        rows.extend(own.map(|row| [vec![out.results().bold(id)], row].concat()));
        all.push(subject.as_json(now));
    }
    match rows.is_empty() {
        _ if out.is_json() => out.json(&all.into())?,
        true => out.note("nothing is granted"),
        false => out.line(&table(&rows))?,
    }
    store.close().await;
    Ok(Exit::Done)
}

/// A plugin or native tool whose grants a command shows or changes.
struct Subject<'a>(GrantSubject<'a>);

impl Subject<'_> {
    /// Checks that the plugin or native tool exists, because an unknown id is probably a typing error.
    fn must_be_known(&self, project: &Project) -> Result<(), CommandError> {
        let native = || GUARDED.iter().map(|(name, _)| *name);
        let plugins = &project.snapshot.plugins;
        if native().any(|name| name == self.0.id) || plugins.contains_key(self.0.id) {
            return Ok(());
        }
        match nearest(self.0.id, plugins.keys().map(|id| &**id).chain(native())) {
            Some(near) => Err(CommandError::usage(format!(
                "unknown plugin or native tool `{}`; did you mean `{near}`?",
                self.0.id
            ))),
            None => project.plugin(self.0.id).map(drop),
        }
    }

    /// Checks that the plugin exists. A removed one may still have grants, which can be listed and revoked.
    async fn must_be_there(&self, project: &Project) -> Result<(), CommandError> {
        if self.0.config.grants.contains_key(self.0.id) || self.0.stored().await.map_err(refused)?.is_some() {
            return Ok(());
        }
        self.must_be_known(project)
    }

    /// Explains grants without limits, and warns of probable typing errors.
    fn warn(&self, words: &[GrantWord], out: &Console) {
        let warn = |text: String| out.note(&format!("{} {text}", out.talk().yellow("warning:")));
        for word in words.iter().filter(|word| word.names.is_empty()) {
            if let Some(meaning) = word.capability.whole() {
                let name = word.capability.name();
                warn(format!("`{}` may now {meaning}; to grant less, use `{name}=NAME,…`", self.0.id));
            }
        }
        let grants = words.iter().filter_map(|word| word.grants(&self.0.config.project).ok());
        for folder in grants.flat_map(|grants| grants.files).filter(|folder| !folder.is_dir()) {
            warn(format!("the folder {} does not exist yet", report::near(&folder).display()));
        }
    }

    /// Shows the grants after a change, and the number of hosts that it has reached.
    async fn print(
        &self,
        touched: &[Capability],
        generation: u64,
        out: &Console,
    ) -> Result<Exit, CommandError> {
        let reach = project::reach(self.0.store, generation).await?;
        if out.is_json() {
            self.show(Some(reach), out).await?;
            return Ok(reach.exit());
        }
        let now = self.now().await?;
        for capability in touched {
            let value = value(&now, *capability).unwrap_or_else(|| "nothing".to_owned());
            let from = match now.stored.get(capability.name()) {
                None if now.configured.get(capability.name()).is_some() => {
                    format!(" ({})", self.0.configured_by(*capability))
                }
                _ => String::new(),
            };
            out.line(&format!("{} = {value}{from} — {}", capability.name(), reach.in_words()))?;
        }
        if touched.is_empty() {
            out.line(&format!("no more grants are stored for {} — {}", self.0.id, reach.in_words()))?;
        }
        Ok(reach.exit())
    }

    /// Shows the grants and their sources.
    async fn show(&self, reach: Option<Reach>, out: &Console) -> Result<(), CommandError> {
        let now = self.now().await?;
        if out.is_json() {
            let shown = self.as_json(now);
            if let Some(reach) = reach {
                shown.edit("reach", reach.as_json());
            }
            out.json(&shown)?;
            return Ok(());
        }
        let rows = self.rows(&now, out);
        if rows.is_empty() {
            out.note(&format!("nothing is granted to `{}`", self.0.id));
            return Ok(());
        }
        Ok(out.line(&table(&rows))?)
    }

    fn as_json(&self, now: CurrentGrants) -> Json {
        Json::from([
            ("id", self.0.id.into()),
            ("granted", now.granted),
            ("configured", now.configured),
            ("stored", now.stored),
        ])
    }

    /// Returns a row for each granted capability: its name, its value and its source.
    fn rows(&self, now: &CurrentGrants, out: &Console) -> Vec<Vec<String>> {
        let rows = Capability::ALL.into_iter().filter_map(|capability| {
            let name = capability.name();
            let source = match (now.configured.get(name), now.stored.get(name)) {
                (Some(_), Some(_)) => format!("{} and stored", self.0.configured_by(capability)),
                (Some(_), None) => self.0.configured_by(capability),
                _ => "stored".to_owned(),
            };
            Some(vec![out.results().bold(name), value(now, capability)?, out.results().dim(&source)])
        });
        rows.collect()
    }

    async fn now(&self) -> Result<CurrentGrants, CommandError> {
        self.0.current().await.map_err(refused)
    }
}

fn touched(words: &[GrantWord]) -> Vec<Capability> {
    Capability::ALL
        .into_iter()
        .filter(|capability| words.iter().any(|word| word.capability == *capability))
        .collect()
}

/// Describes the grants of a capability.
fn value(now: &CurrentGrants, capability: Capability) -> Option<String> {
    let value = now.granted.get(capability.name())?;
    let names: Vec<String> = value.items().iter().filter_map(|name| name.as_str().map(clean)).collect();
    match capability.names() {
        None => Some("granted".to_owned()),
        Some(_) if names.is_empty() => Some("everything".to_owned()),
        Some(_) => Some(names.join(", ")),
    }
}
