//! `valvehouse valves`: reads and changes the valves of plugins.

use super::args;
use super::project::{self, Project, Reach};
use valvehouse_config::{Config, PluginSettings};
use valvehouse_core::valve::{Layer, ValveError, ValveSchema};
use valvehouse_host::app;
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit, check_valve, table};

pub(super) async fn run(args: args::Valves, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let args = args.command.unwrap_or(args::ValvesDo::Get { id: None, key: None, user: None });
    let project = match &args {
        args::ValvesDo::Get { .. } | args::ValvesDo::Spec { .. } => Project::look(config).await?,
        args::ValvesDo::Set { .. } | args::ValvesDo::Reset { .. } => Project::look_to_change(config).await?,
    };
    let exit = match &args {
        args::ValvesDo::Get { id: None, user, .. } => list(&project, config, user.as_deref(), out).await,
        args::ValvesDo::Get { id: Some(id), key, user } => {
            Valves::of(&project, config, id, user.as_deref())?.get(key.as_deref(), out).await
        }
        args::ValvesDo::Set { id, values, user } => {
            Valves::of(&project, config, id, user.as_deref())?.set(values, out).await
        }
        args::ValvesDo::Reset { id, keys, user } => {
            Valves::of(&project, config, id, user.as_deref())?.reset(keys, out).await
        }
        args::ValvesDo::Spec { id, user_valves } => {
            let user = user_valves.then_some("anybody");
            Valves::of(&project, config, id, user)?.spec(out)
        }
    }?;
    project.store.close().await;
    Ok(exit)
}

/// Lists the valves of all plugins: those of operators, or of one user.
async fn list(
    project: &Project,
    config: &Config,
    user: Option<&str>,
    out: &Console,
) -> Result<Exit, CommandError> {
    let (all, mut rows) = (Json::object(), Vec::new());
    for (id, plugin) in &project.snapshot.plugins {
        let Some(script) = &plugin.script else {
            out.note(&format!("{} `{id}` does not load", out.talk().yellow("warning:")));
            continue;
        };
        if user.is_some() && script.manifest.user_valves.is_none() {
            continue;
        }
        let valves = Valves::of(project, config, id, user)?;
        let now = valves.in_force().await?;
        let own = valves.rows(&now, out).into_iter();
        rows.extend(own.map(|row| [vec![out.results().bold(id)], row].concat()));
        let names = valves.schema.fields().iter().map(|field| field.name.as_str());
        all.edit(id, valves.as_json(names, &now));
    }
    match rows.is_empty() {
        _ if out.is_json() => out.json(&all)?,
        true => out.note("no plugin has valves"),
        false => out.line(&table(&rows))?,
    }
    Ok(Exit::Done)
}

/// The valves of one plugin: those of operators, or of one user.
struct Valves<'a> {
    project: &'a Project,
    id: &'a str,
    user: Option<&'a str>,
    schema: &'a ValveSchema,
    /// The values of the configuration, and the name of their source.
    configured: Json,
    configured_by: String,
}

impl<'a> Valves<'a> {
    fn of(
        project: &'a Project,
        config: &Config,
        id: &'a str,
        user: Option<&'a str>,
    ) -> Result<Self, CommandError> {
        let manifest = &project.script(id)?.manifest;
        let none = || CommandError::usage(format!("`{id}` has no user valves; remove --user"));
        let schema = match user {
            Some(_) => manifest.user_valves.as_ref().ok_or_else(none)?,
            None => &manifest.valves,
        };
        let kind = project.plugin(id)?.kind;
        let (section, all) = (kind.folder(), app::settings_of_kind(config, kind));
        let configured = all.get(id).filter(|_| user.is_none());
        let configured_by = config.origin(&format!("{section}.{id}.valves")).source();
        let typed = |settings: &PluginSettings| schema.typed(&settings.valves, &settings.untyped_valves);
        let configured = configured.map_or(Json::Null, typed);
        Ok(Self { project, id, user, schema, configured, configured_by })
    }

    async fn get(&self, key: Option<&str>, out: &Console) -> Result<Exit, CommandError> {
        let now = self.in_force().await?;
        for problem in &now.problems {
            out.note(&format!("{} {problem}", out.talk().yellow("warning:")));
        }
        match key {
            Some(key) => {
                self.check_key(key)?;
                let value = now.values.field(key);
                match value.as_str() {
                    Some(text) if !out.is_json() => out.line(text)?,
                    _ => out.json(&value)?,
                }
            }
            None if out.is_json() => {
                let names = self.schema.fields().iter().map(|field| field.name.as_str());
                out.json(&self.as_json(names, &now))?;
            }
            None if self.schema.fields().is_empty() => out.note(&format!("`{}` has no valves", self.id)),
            None => out.line(&table(&self.rows(&now, out)))?,
        }
        Ok(Exit::Done)
    }

    /// Returns a row for each valve: its name, value, source and description.
    fn rows(&self, now: &InForce, out: &Console) -> Vec<Vec<String>> {
        let rows = self.schema.fields().iter().map(|field| {
            let value = now.values.field(&field.name).to_string();
            let about = field.shape.description.as_deref().unwrap_or("");
            let from = now.source(self, &field.name).to_owned();
            vec![out.results().bold(&field.name), value, from, out.results().dim(about)]
        });
        rows.collect()
    }

    async fn set(&self, values: &[(String, String)], out: &Console) -> Result<Exit, CommandError> {
        let changes = Json::object();
        for (key, text) in values {
            self.check_key(key)?;
            let value = match text.as_str() {
                "null" => Json::Null,
                text => self.schema.check(key, &text.into()).map_err(|error| misfit(self.id, &error))?,
            };
            // The object is new and not read-only.
            changes.edit(key, value);
        }
        self.project.remember(self.id).await;
        let generation = self
            .project
            .store
            .merge_valves(self.id, self.user, &self.schema.marked_changes(&changes), &project::author())
            .await?;
        self.print(values.iter().map(|(key, _)| key.as_str()), generation, out).await
    }

    async fn reset(&self, keys: &[String], out: &Console) -> Result<Exit, CommandError> {
        let stored = self.project.store.valves(self.id, self.user).await?;
        for key in keys {
            // Values of an older version of the script may be reset too.
            if stored.get(key).is_none() {
                self.check_key(key)?;
            }
        }
        let all = stored.keys();
        let all: Vec<String> = all.into_iter().map(String::from).collect();
        let keys = if keys.is_empty() { &all } else { keys };
        if keys.is_empty() {
            out.note(&format!("no valves were set for `{}`", self.id));
            return Ok(Exit::Done);
        }
        self.project.remember(self.id).await;
        let generation =
            self.project.store.reset_valves(self.id, self.user, keys, &project::author()).await?;
        self.print(keys.iter().map(String::as_str), generation, out).await
    }

    fn spec(&self, out: &Console) -> Result<Exit, CommandError> {
        out.json(&self.schema.json_schema())?;
        Ok(Exit::Done)
    }

    /// Shows the values after a change, and the number of hosts that it has reached.
    async fn print<'k>(
        &self,
        keys: impl Iterator<Item = &'k str> + Clone,
        generation: u64,
        out: &Console,
    ) -> Result<Exit, CommandError> {
        let reach: Reach = self.project.reach(generation).await?;
        let now = self.in_force().await?;
        if out.is_json() {
            let output = self.as_json(keys, &now);
            output.edit("reach", reach.as_json());
            out.json(&output)?;
            return Ok(reach.exit());
        }
        for key in keys {
            let value = now.values.get(key).map_or_else(|| "gone".to_owned(), |value| value.to_string());
            let from = match now.source(self, key) {
                "stored" => String::new(),
                source => format!(" ({source})"),
            };
            out.line(&format!("{key} = {value}{from} — {}", reach.in_words()))?;
        }
        Ok(reach.exit())
    }

    fn as_json<'k>(&self, keys: impl Iterator<Item = &'k str>, now: &InForce) -> Json {
        let valves = keys.map(|key| {
            let value = now.values.field(key);
            (key.into(), Json::from([("value", value), ("source", now.source(self, key).into())]))
        });
        let valves: valvehouse_json::Object = valves.collect();
        Json::from([("id", self.id.into()), ("user", self.user.into()), ("valves", valves.into())])
    }

    async fn in_force(&self) -> Result<InForce, CommandError> {
        let stored = self.project.store.valves(self.id, self.user).await?;
        let (values, problems) = self.schema.effective(&self.layers(&stored));
        let problems = problems.into_iter().map(|(_, problem)| problem).collect();
        Ok(InForce { values: self.schema.mask(&values), stored, problems })
    }

    fn layers<'v>(&'v self, stored: &'v Json) -> [Layer<'v>; 2] {
        [Layer::exact(&self.configured), Layer::lenient(stored)]
    }

    fn check_key(&self, key: &str) -> Result<(), CommandError> {
        check_valve(self.id, self.schema, key)
    }
}

/// The effective values, masked, with their sources.
struct InForce {
    values: Json,
    stored: Json,
    problems: Vec<String>,
}

impl InForce {
    /// Returns the source of a value: the topmost layer with a valid one.
    fn source<'v>(&self, valves: &'v Valves<'_>, key: &str) -> &'v str {
        match valves.schema.layer_in_force(key, &valves.layers(&self.stored)) {
            None => "default",
            Some(0) => &valves.configured_by,
            Some(_) => "stored",
        }
    }
}

fn misfit(id: &str, error: &ValveError) -> CommandError {
    CommandError::data(format!("`{id}`: {error}; nothing was changed"))
}
