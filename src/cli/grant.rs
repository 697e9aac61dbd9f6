//! `valvehouse grant`: the capabilities of plugins and native tools.

use super::args;
use super::project::{self, Project, Reach};
use std::collections::BTreeSet;
use std::sync::Arc;
use valvehouse_config::{Capability, Config, GrantWord, Grants};
use valvehouse_core::text::{did_you_mean, nearest};
use valvehouse_host::builtin::GUARDED;
use valvehouse_json::Json;
use valvehouse_store::{self as store, Store};
use valvehouse_terminal::{CommandError, Console, Exit, clean, report, table};

/// The maximum number of attempts at a change that conflicts with others.
const TRIES: usize = 20;

pub(super) async fn run(args: &args::Grant, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let Some(id) = args.id.as_deref() else { return list(config, out).await };
    let words = words(&args.capabilities)?;
    if args.revoke && words.is_empty() {
        // The project is not read, so this also works for stored grants that cannot be read.
        return take_all_back(id, config, out).await;
    }
    let project = match words.is_empty() {
        true => Project::look(config).await?,
        false => Project::look_to_change(config).await?,
    };
    let subject = Subject { id, config, store: project.store.clone() };
    let exit = if words.is_empty() {
        subject.must_be_there(&project).await?;
        subject.show(None, out).await?;
        Exit::Done
    } else if args.revoke {
        subject.must_be_there(&project).await?;
        subject.take_back(&words, out).await?
    } else {
        subject.must_be_known(&project)?;
        subject.grant(&words, out).await?
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
        let subject = Subject { id, config, store: store.clone() };
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

/// Parses all capabilities; the error lists all invalid ones.
fn words(texts: &[String]) -> Result<Vec<GrantWord>, CommandError> {
    let (mut words, mut wrong) = (Vec::new(), Vec::new());
    for text in texts {
        match GrantWord::parse(text) {
            Ok(word) => words.push(word),
            Err(why) => wrong.push(why.to_string()),
        }
    }
    if wrong.is_empty() { Ok(words) } else { Err(CommandError::usage(wrong.join("\n"))) }
}

async fn take_all_back(id: &str, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let store = store::open_to_read(&config.store).await?;
    let subject = Subject { id, config, store };
    // If the stored grants cannot be read, the id is assumed to have some.
    let stored = subject.store.grants().await.ok();
    if stored.as_ref().is_some_and(|stored| stored.iter().all(|(own, _)| own != id)) {
        let ids = stored.iter().flatten().map(|(id, _)| id.as_str());
        let hint = did_you_mean(id, ids);
        let in_file = if config.grants.contains_key(id) {
            "; remove grants of valvehouse.toml in that file"
        } else {
            ""
        };
        return Err(CommandError::usage(format!(
            "cannot revoke grants of `{id}`: none are stored{in_file}{hint}"
        )));
    }
    // Without expected grants, there can be no conflict.
    let generation = subject.store.set_grants(id, None, None, &project::author()).await?.unwrap_or_default();
    let exit = subject.print(&[], generation, out).await?;
    subject.store.close().await;
    Ok(exit)
}

/// A plugin or native tool and its grants.
struct Subject<'a> {
    id: &'a str,
    config: &'a Config,
    store: Arc<Store>,
}

impl Subject<'_> {
    /// Checks that the plugin or native tool exists, because an unknown id is probably a typing error.
    fn must_be_known(&self, project: &Project) -> Result<(), CommandError> {
        let native = || GUARDED.iter().map(|(name, _)| *name);
        let plugins = &project.snapshot.plugins;
        if native().any(|name| name == self.id) || plugins.contains_key(self.id) {
            return Ok(());
        }
        match nearest(self.id, plugins.keys().map(|id| &**id).chain(native())) {
            Some(near) => Err(CommandError::usage(format!(
                "unknown plugin or native tool `{}`; did you mean `{near}`?",
                self.id
            ))),
            None => project.plugin(self.id).map(drop),
        }
    }

    /// Checks that the plugin exists. A removed one may still have grants, which can be listed and revoked.
    async fn must_be_there(&self, project: &Project) -> Result<(), CommandError> {
        if self.config.grants.contains_key(self.id) || self.stored().await?.is_some() {
            return Ok(());
        }
        self.must_be_known(project)
    }

    async fn grant(&self, words: &[GrantWord], out: &Console) -> Result<Exit, CommandError> {
        let mut added = Grants::default();
        for word in words {
            self.must_be_usable(word.capability)?;
            added = added.merge(
                &word.grants(&self.config.project).map_err(|error| CommandError::usage(error.to_string()))?,
            );
        }
        let generation = self.change(|stored| Ok(stored.merge(&added))).await?;
        self.warn(words, &added, out);
        self.print(&touched(words), generation, out).await
    }

    async fn take_back(&self, words: &[GrantWord], out: &Console) -> Result<Exit, CommandError> {
        let less = |stored: Grants| {
            words.iter().try_fold(stored, |left, word| {
                if left.to_json(&self.config.project).get(word.capability.name()).is_none() {
                    return Err(self.not_stored(word.capability));
                }
                left.without(word, &self.config.project).map_err(|error| error.to_string())
            })
        };
        let generation = self.change(less).await?;
        self.print(&touched(words), generation, out).await
    }

    fn not_stored(&self, capability: Capability) -> String {
        let name = capability.name();
        if self.configured().to_json(&self.config.project).get(name).is_some() {
            let place = self.configured_by(capability);
            return format!("`{name}` is granted to `{}` by {place}; remove it there", self.id);
        }
        format!("`{name}` is not granted to `{}`", self.id)
    }

    /// Checks that a native tool uses a capability; other grants would have no effect.
    fn must_be_usable(&self, capability: Capability) -> Result<(), CommandError> {
        let used = GUARDED.iter().find(|(name, _)| *name == self.id).map(|(_, used)| *used);
        if used.is_none_or(|used| used.contains(&capability)) {
            return Ok(());
        }
        let used: Vec<&str> = used.into_iter().flatten().map(|used| used.name()).collect();
        let (name, used) = (capability.name(), used.join(" and "));
        Err(CommandError::usage(format!("`{}` does not use `{name}`, only {used}", self.id)))
    }

    /// Explains grants without limits, and warns of probable typing errors.
    fn warn(&self, words: &[GrantWord], added: &Grants, out: &Console) {
        let warn = |text: String| out.note(&format!("{} {text}", out.talk().yellow("warning:")));
        for word in words.iter().filter(|word| word.names.is_empty()) {
            if let Some(meaning) = word.capability.whole() {
                let name = word.capability.name();
                warn(format!("`{}` may now {meaning}; to grant less, use `{name}=NAME,…`", self.id));
            }
        }
        for folder in added.files.iter().filter(|folder| !folder.is_dir()) {
            warn(format!("the folder {} does not exist yet", report::near(folder).display()));
        }
    }

    /// Changes the stored grants; retries after a concurrent change.
    async fn change(&self, change: impl Fn(Grants) -> Result<Grants, String>) -> Result<u64, CommandError> {
        for _ in 0..TRIES {
            let stored = self.stored().await?;
            let before = self.read(stored.as_ref())?;
            let after = change(before).map_err(CommandError::usage)?;
            let json = after.to_json(&self.config.project);
            let json = Some(&json).filter(|_| !after.is_nothing());
            if let Some(generation) =
                self.store.set_grants(self.id, json, stored.as_ref(), &project::author()).await?
            {
                return Ok(generation);
            }
        }
        let message = format!(
            "cannot change the grants of `{}`: other processes are changing them; try again",
            self.id
        );
        Err(CommandError::new(Exit::Unavailable, message))
    }

    async fn stored(&self) -> Result<Option<Json>, CommandError> {
        let all = self.store.grants().await?;
        Ok(all.into_iter().find(|(id, _)| id == self.id).map(|(_, grants)| grants))
    }

    fn read(&self, stored: Option<&Json>) -> Result<Grants, CommandError> {
        let Some(stored) = stored else { return Ok(Grants::default()) };
        Grants::from_json(stored, &self.config.project).map_err(|wrong| {
            let id = self.id;
            let help = format!("delete them with `valvehouse grant {id} --revoke`");
            CommandError::data(format!("invalid stored grants of `{id}`: {wrong}; {help}"))
        })
    }

    fn configured(&self) -> Grants {
        self.config.grants.get(self.id).cloned().unwrap_or_default()
    }

    fn configured_by(&self, capability: Capability) -> String {
        project::configured_by(self.config, &format!("grants.{}.{}", self.id, capability.name()))
    }

    /// Shows the grants after a change, and the number of hosts that it has reached.
    async fn print(
        &self,
        touched: &[Capability],
        generation: u64,
        out: &Console,
    ) -> Result<Exit, CommandError> {
        let reach = project::reach(&self.store, generation).await?;
        if out.is_json() {
            self.show(Some(reach), out).await?;
            return Ok(reach.exit());
        }
        let now = self.now().await?;
        for capability in touched {
            let value = now.value(*capability).unwrap_or_else(|| "nothing".to_owned());
            let from = match now.stored.get(capability.name()) {
                None if now.configured.get(capability.name()).is_some() => {
                    format!(" ({})", self.configured_by(*capability))
                }
                _ => String::new(),
            };
            out.line(&format!("{} = {value}{from} — {}", capability.name(), reach.in_words()))?;
        }
        if touched.is_empty() {
            out.line(&format!("no more grants are stored for {} — {}", self.id, reach.in_words()))?;
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
            out.note(&format!("nothing is granted to `{}`", self.id));
            return Ok(());
        }
        Ok(out.line(&table(&rows))?)
    }

    fn as_json(&self, now: Now) -> Json {
        Json::from([
            ("id", self.id.into()),
            ("granted", now.granted),
            ("configured", now.configured),
            ("stored", now.stored),
        ])
    }

    /// Returns a row for each granted capability: its name, its value and its source.
    fn rows(&self, now: &Now, out: &Console) -> Vec<Vec<String>> {
        let rows = Capability::ALL.into_iter().filter_map(|capability| {
            let name = capability.name();
            let source = match (now.configured.get(name), now.stored.get(name)) {
                (Some(_), Some(_)) => format!("{} and stored", self.configured_by(capability)),
                (Some(_), None) => self.configured_by(capability),
                _ => "stored".to_owned(),
            };
            Some(vec![out.results().bold(name), now.value(capability)?, out.results().dim(&source)])
        });
        rows.collect()
    }

    async fn now(&self) -> Result<Now, CommandError> {
        let (configured, stored) = (self.configured(), self.read(self.stored().await?.as_ref())?);
        let json = |grants: &Grants| grants.to_json(&self.config.project);
        let granted = json(&configured.merge(&stored));
        Ok(Now { granted, configured: json(&configured), stored: json(&stored) })
    }
}

fn touched(words: &[GrantWord]) -> Vec<Capability> {
    Capability::ALL
        .into_iter()
        .filter(|capability| words.iter().any(|word| word.capability == *capability))
        .collect()
}

/// The current grants, and their sources.
struct Now {
    granted: Json,
    configured: Json,
    stored: Json,
}

impl Now {
    /// Describes the grants of a capability.
    fn value(&self, capability: Capability) -> Option<String> {
        let value = self.granted.get(capability.name())?;
        let names: Vec<String> = value.items().iter().filter_map(|name| name.as_str().map(clean)).collect();
        match capability {
            Capability::Kv
            | Capability::Llm
            | Capability::Vectors
            | Capability::Memories
            | Capability::Chats => Some("granted".to_owned()),
            _ if names.is_empty() => Some("everything".to_owned()),
            _ => Some(names.join(", ")),
        }
    }
}
