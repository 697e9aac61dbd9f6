//! The grants of plugins and native tools: those of the settings, and those that operators store.

use super::change::{file_of, keep};
use super::files::File;
use super::plugins::{Admin, known};
use super::rejection::AdminError;
use crate::builtin::GUARDED;
use crate::snapshot::Snapshot;
use crate::spelled_json::SpelledJson;
use crate::writer::ReloadLock;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::time::UNIX_EPOCH;
use valvehouse_config::{Capability, Config, GrantError, GrantWord, Grants};
use valvehouse_core::error::RequestErrorKind;
use valvehouse_core::text::did_you_mean;
use valvehouse_json::Json;
use valvehouse_script::requested_by;
use valvehouse_store::{Store, hash};

/// The maximum number of attempts at a change that conflicts with others.
const TRIES: usize = 20;

/// A plugin or native tool and its grants.
pub struct GrantSubject<'a> {
    /// The id of the plugin or the name of the native tool.
    pub id: &'a str,
    /// The current settings.
    pub config: &'a Config,
    /// The store of the other grants.
    pub store: &'a Store,
}

/// The current grants, and their sources.
pub struct CurrentGrants {
    /// The grants of either source.
    pub granted: Json,
    /// The grants of the settings.
    pub configured: Json,
    /// The stored grants.
    pub stored: Json,
}

/// Parses capabilities such as `http=api.example.com`.
///
/// # Errors
/// Returns all invalid ones.
pub fn grant_words(texts: &[String]) -> Result<Vec<GrantWord>, AdminError> {
    let (mut words, mut wrong) = (Vec::new(), Vec::new());
    for text in texts {
        match GrantWord::parse(text) {
            Ok(word) => words.push(word),
            Err(why) => wrong.push(why.to_string()),
        }
    }
    if wrong.is_empty() { Ok(words) } else { Err(AdminError::invalid(wrong.join("\n"), "grants")) }
}

impl GrantSubject<'_> {
    /// Returns the current grants.
    ///
    /// # Errors
    /// Returns an error if the stored grants cannot be read.
    pub async fn current(&self) -> Result<CurrentGrants, AdminError> {
        let (configured, stored) = (self.configured(), self.read(self.stored().await?.as_ref())?);
        let json = |grants: &Grants| grants.to_json(&self.config.project);
        let granted = json(&configured.merge(&stored));
        Ok(CurrentGrants { granted, configured: json(&configured), stored: json(&stored) })
    }

    /// Adds stored grants and returns the new generation.
    ///
    /// # Errors
    /// Returns an error if a grant is invalid or not used by a native tool, and if the store cannot be written.
    pub async fn grant(&self, words: &[GrantWord], by: &str) -> Result<u64, AdminError> {
        if let Some((_, used)) = GUARDED.iter().find(|(name, _)| *name == self.id) {
            must_be_used(self.id, used, words)?;
        }
        let mut added = Grants::default();
        for word in words {
            added = added.merge(&word.grants(&self.config.project).map_err(invalid)?);
        }
        self.change(|stored| Ok(stored.merge(&added)), by).await
    }

    /// Revokes stored grants, all of them if no word is given, and returns the new generation.
    ///
    /// # Errors
    /// Returns an error if they are not stored, and if the store cannot be written.
    pub async fn revoke(&self, words: &[GrantWord], by: &str) -> Result<u64, AdminError> {
        if words.is_empty() {
            return self.revoke_all(by).await;
        }
        let less = |stored: Grants| {
            words.iter().try_fold(stored, |left, word| {
                if left.to_json(&self.config.project).get(word.capability.name()).is_none() {
                    return Err(self.not_stored(word.capability));
                }
                left.without(word, &self.config.project).map_err(invalid)
            })
        };
        self.change(less, by).await
    }

    async fn revoke_all(&self, by: &str) -> Result<u64, AdminError> {
        let id = self.id;
        // If the stored grants cannot be read, the id is assumed to have some.
        let stored = self.store.grants().await.ok();
        if stored.as_ref().is_some_and(|stored| stored.iter().all(|(own, _)| own != id)) {
            let hint = did_you_mean(id, stored.iter().flatten().map(|(id, _)| id.as_str()));
            let in_file = if self.config.grants.contains_key(id) {
                "; remove grants of valvehouse.toml in that file"
            } else {
                ""
            };
            return Err(AdminError::conflict(
                format!("cannot revoke grants of `{id}`: none are stored{in_file}{hint}"),
                "not_granted",
            ));
        }
        self.store.set_grants(id, None, None, by).await?.ok_or_else(|| self.contended())
    }

    fn not_stored(&self, capability: Capability) -> AdminError {
        let (id, name) = (self.id, capability.name());
        let message = match self.configured().to_json(&self.config.project).get(name) {
            Some(_) => {
                format!(
                    "`{name}` is granted to `{id}` by {}; remove it there",
                    self.configured_by(capability)
                )
            }
            None => format!("`{name}` is not granted to `{id}`"),
        };
        AdminError::conflict(message, "not_granted")
    }

    /// Changes the stored grants; retries after a concurrent change.
    async fn change(
        &self,
        change: impl Fn(Grants) -> Result<Grants, AdminError>,
        by: &str,
    ) -> Result<u64, AdminError> {
        for _ in 0..TRIES {
            let stored = self.stored().await?;
            let after = change(self.read(stored.as_ref())?)?;
            let json = after.to_json(&self.config.project);
            let json = Some(&json).filter(|_| !after.is_nothing());
            if let Some(generation) = self.store.set_grants(self.id, json, stored.as_ref(), by).await? {
                return Ok(generation);
            }
        }
        Err(self.contended())
    }

    fn contended(&self) -> AdminError {
        let message = format!(
            "cannot change the grants of `{}`: other processes are changing them; try again",
            self.id
        );
        AdminError::conflict(message, "changed_meanwhile")
    }

    /// Returns the stored grants as they are stored.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn stored(&self) -> Result<Option<Json>, AdminError> {
        let all = self.store.grants().await?;
        Ok(all.into_iter().find(|(id, _)| id == self.id).map(|(_, grants)| grants))
    }

    fn read(&self, stored: Option<&Json>) -> Result<Grants, AdminError> {
        let Some(stored) = stored else { return Ok(Grants::default()) };
        Grants::from_json(stored, &self.config.project).map_err(|wrong| {
            let id = self.id;
            let help = format!("delete them with `valvehouse grant {id} --revoke`");
            let message = format!("invalid stored grants of `{id}`: {wrong}; {help}");
            AdminError::request(message, "invalid_grants", RequestErrorKind::Unusable)
        })
    }

    fn configured(&self) -> Grants {
        self.config.grants.get(self.id).map_or_else(Grants::default, Grants::clone)
    }

    /// Returns the name of the source of a configured grant.
    pub fn configured_by(&self, capability: Capability) -> String {
        self.config.origin(&format!("grants.{}.{}", self.id, capability.name())).source()
    }
}

/// Checks that a plugin or native tool uses what it is granted; other grants would have no effect.
fn must_be_used(id: &str, used: &[Capability], words: &[GrantWord]) -> Result<(), AdminError> {
    let Some(other) = words.iter().find(|word| !used.contains(&word.capability)) else { return Ok(()) };
    let names: Vec<&str> = used.iter().map(|used| used.name()).collect();
    let only = if names.is_empty() { String::new() } else { format!(", only {}", names.join(" and ")) };
    Err(AdminError::invalid(format!("`{id}` does not use `{}`{only}", other.capability.name()), "grants"))
}

fn invalid(error: GrantError) -> AdminError {
    match error {
        GrantError::NotGranted(why) => AdminError::conflict(why, "not_granted"),
        error => AdminError::invalid(error.to_string(), "grants"),
    }
}

/// The capabilities that a plugin asks for or may use.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PluginGrants {
    /// The hash of the text that asks, which an approval names.
    pub hash: String,
    /// The capabilities that the text asks for, and the others that are granted.
    pub capabilities: Vec<CapabilityGrant>,
}

/// A capability that a plugin asks for or may use.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CapabilityGrant {
    /// The name of the capability.
    pub name: &'static str,
    /// The use that the plugin may make of it.
    pub meaning: &'static str,
    /// The kind of the names of a grant, such as `hosts`; null if it has none.
    pub names: Option<&'static str>,
    /// The meaning of a grant without names; null where that is nothing special.
    pub whole: Option<&'static str>,
    /// `missing` if the text asks for it and nothing grants it, `declared` if its declaration grants it, `granted` by an
    /// operator, or `unused` if the text does not ask for what is granted.
    #[schemars(extend("enum" = ["missing", "declared", "granted", "unused"]))]
    pub state: &'static str,
    /// The hosts that the text itself declares.
    pub declared: Vec<String>,
    /// The time in seconds since 1970 since which the texts of the plugin ask for it; null if it does not ask.
    pub since: Option<i64>,
    /// The first version that asks for it; null if it was not stored yet.
    pub version: Option<u64>,
    /// The grant of the settings: true, a list of names, or null.
    pub configured: SpelledJson,
    /// The source of the grant of the settings, such as the name of a file or variable.
    pub configured_by: Option<String>,
    /// The stored grant: true, a list of names, or null.
    pub stored: SpelledJson,
}

/// A text that asks for capabilities, and its file, unless scripts come from the store.
struct AskingText {
    text: String,
    file: Option<File>,
}

impl AskingText {
    fn of(writer: &ReloadLock<'_>, snapshot: &Snapshot, id: &str) -> Result<Self, AdminError> {
        let plugin = known(snapshot, id)?;
        if let Some(sources) = writer.sources() {
            let text = sources.text(&plugin.path).map_or_else(String::new, |text| text.to_string());
            return Ok(Self { text, file: None });
        }
        let file = file_of(writer, Some(plugin), plugin.kind, id, None)?;
        // A missing file asks for nothing.
        let text = writer.aside(|| file.text())?.into_iter().collect();
        Ok(Self { text, file: Some(file) })
    }

    /// Returns the time of the file in seconds since 1970.
    fn written_at(&self) -> Option<i64> {
        let written = self.file.as_ref()?.path().metadata().ok()?.modified().ok()?;
        i64::try_from(written.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
    }
}

impl Admin {
    /// Returns what a plugin asks for, and what it may use.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin, and if the file or the store cannot be read.
    pub async fn grants(&self, config: &Config, id: &str) -> Result<PluginGrants, AdminError> {
        let writer = self.host.writer().await?;
        let asking = AskingText::of(&writer, &self.host.snapshot(), id)?;
        drop(writer);
        let subject = GrantSubject { id, config, store: self.host.store() };
        let current = subject.current().await?;
        let (asked, hosts) = requested_by(&asking.text);
        let since = self.asked_since(id, &asking, &asked).await?;
        let report = |capability: Capability| {
            let name = capability.name();
            let is_asked = asked.contains(&capability);
            let declared = if capability == Capability::Http { hosts.clone() } else { Vec::new() };
            let is_declared = match capability {
                Capability::Kv | Capability::Vectors | Capability::Llm | Capability::Tools => true,
                _ => !declared.is_empty(),
            };
            let state = match (current.granted.get(name), is_asked) {
                (None, false) => return None,
                (Some(_), false) => "unused",
                (Some(_), true) => "granted",
                (None, true) if is_declared => "declared",
                (None, true) => "missing",
            };
            let (since, version) = since.get(name).map_or((None, None), |since| *since);
            let configured = current.configured.field(name);
            Some(CapabilityGrant {
                name,
                meaning: capability.meaning(),
                names: capability.names(),
                whole: capability.whole(),
                state,
                declared,
                since,
                version,
                configured_by: (!configured.is_null()).then(|| subject.configured_by(capability)),
                configured: configured.into(),
                stored: current.stored.field(name).into(),
            })
        };
        let capabilities = Capability::ALL.into_iter().filter_map(report).collect();
        Ok(PluginGrants { hash: hash(&asking.text), capabilities })
    }

    /// Returns the time and the version since which the texts of a plugin ask for each capability without
    /// interruption.
    async fn asked_since(
        &self,
        id: &str,
        asking: &AskingText,
        asked: &[Capability],
    ) -> Result<HashMap<&'static str, (Option<i64>, Option<u64>)>, AdminError> {
        let store = self.host.store();
        let mut open = asked.to_vec();
        let mut since: HashMap<_, _> =
            open.iter().map(|capability| (capability.name(), (asking.written_at(), None))).collect();
        let (mut known, mut requested) = (hash(&asking.text), asked.to_vec());
        for version in store.history(id).await? {
            let Some(own) = version.hash else { break };
            if own != known {
                requested = store.source(&own).await?.map_or_else(Vec::new, |text| requested_by(&text).0);
                known = own;
            }
            open.retain(|capability| requested.contains(capability));
            let at = (Some(version.at / 1000), Some(version.number));
            since.extend(open.iter().map(|capability| (capability.name(), at)));
            if open.is_empty() {
                break;
            }
        }
        Ok(since)
    }

    /// Grants a plugin what a text asks for that an operator has seen: the one with the hash `shown`.
    ///
    /// # Errors
    /// Returns a refusal if the plugin has another text by now or does not ask for a grant, and if the store cannot be
    /// written.
    pub async fn approve_grants(
        &self,
        config: &Config,
        id: &str,
        shown: &str,
        words: &[GrantWord],
        by: &str,
    ) -> Result<(), AdminError> {
        let writer = self.host.writer().await?;
        let snapshot = self.host.snapshot();
        let asking = AskingText::of(&writer, &snapshot, id)?;
        if hash(&asking.text) != shown {
            let message = format!(
                "cannot approve grants of `{id}`: its script has changed since it was shown; look at what it asks for now, and approve that"
            );
            return Err(AdminError::conflict(message, "changed_meanwhile"));
        }
        if words.is_empty() {
            return Err(AdminError::invalid(
                "missing grants: name at least one, such as `http=HOST`",
                "grants",
            ));
        }
        must_be_used(id, &requested_by(&asking.text).0, words)?;
        if let Some(file) = &asking.file {
            // The history names the operator beside the text that was approved, which may have never loaded.
            keep(&writer, known(&snapshot, id)?.kind, id, file, Some(&asking.text)).await?;
        }
        GrantSubject { id, config, store: writer.store() }.grant(words, by).await?;
        drop(writer);
        self.host.reload_with(id).await;
        Ok(())
    }

    /// Revokes stored grants of a plugin, all of them if no word is given. Those of a guard are revoked only if that is
    /// confirmed: without them it may reject every request, or check less.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin, for what is not stored, and for an unconfirmed guard, and if the store
    /// cannot be written.
    pub async fn revoke_grants(
        &self,
        config: &Config,
        id: &str,
        words: &[GrantWord],
        confirmed: bool,
        by: &str,
    ) -> Result<(), AdminError> {
        let writer = self.host.writer().await?;
        if known(&self.host.snapshot(), id)?.security && !confirmed {
            let message = format!(
                "cannot revoke grants of `{id}`: it is a guard, and without them it may refuse every request or check less; to revoke them anyway, add ?confirm=true"
            );
            return Err(AdminError::conflict(message, "guard"));
        }
        GrantSubject { id, config, store: writer.store() }.revoke(words, by).await?;
        drop(writer);
        self.host.reload_with(id).await;
        Ok(())
    }
}
