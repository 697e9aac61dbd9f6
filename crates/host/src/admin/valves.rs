//! Valves and switches of plugins, changed by operators and users.

use super::plugins::{Admin, known};
use super::rejection::AdminError;
use crate::plugin::Plugin;
use crate::snapshot::Snapshot;
use crate::spelled_json::SpelledJson;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::valve::{MASK, ValveError, ValveSchema, is_mark, was_secret};
use valvehouse_json::{Json, Object};
use valvehouse_script::Kind;
use valvehouse_store::Switch;

/// The maximum size of a user's valves of one plugin, in bytes of JSON. A user must not disable a plugin for others.
const MAX_USER_VALVES: usize = 64 * 1024;

/// The effective value of a valve.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EffectiveValve {
    /// The value, masked if it is secret.
    pub value: SpelledJson,
    /// The layer that sets it.
    #[schemars(extend("enum" = ["default", "configuration", "stored"]))]
    pub source: &'static str,
}

impl Admin {
    /// Replaces all values of the operators, or of one user, as an update over HTTP does: nulls and stored values of
    /// keys that the script no longer declares are dropped, and a masked secret keeps its value. Returns the stored
    /// values, masked.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin or key or an invalid value, and if the store cannot be written.
    pub async fn replace_valves(
        &self,
        id: &str,
        user: Option<&str>,
        values: &Json,
        by: &str,
    ) -> Result<Json, AdminError> {
        self.update_valves(id, user, by, values, |schema, stored| {
            check_keys(schema, values.keys().into_iter().filter(|key| stored.get(key).is_none()))?;
            Ok(values.clone())
        })
        .await
    }

    /// Sets values of the operators, or of one user; the other keys keep their values, and null resets a key. Returns
    /// the stored values, masked.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin or key or an invalid value, and if the store cannot be written.
    pub async fn set_valves(
        &self,
        id: &str,
        user: Option<&str>,
        values: &Json,
        by: &str,
    ) -> Result<Json, AdminError> {
        self.update_valves(id, user, by, values, |schema, stored| {
            check_keys(schema, values.keys().into_iter())?;
            let merged: Object = stored.entries().into_iter().chain(values.entries()).collect();
            Ok(merged.into())
        })
        .await
    }

    /// Replaces the stored values by those that a function returns for them and for what is `given`, and returns the new ones,
    /// masked.
    async fn update_valves(
        &self,
        id: &str,
        user: Option<&str>,
        by: &str,
        given: &Json,
        change: impl FnOnce(&ValveSchema, &Json) -> Result<Json, AdminError>,
    ) -> Result<Json, AdminError> {
        let writer = self.host.writer().await?;
        let snapshot = self.host.snapshot();
        let schema = schema(known(&snapshot, id)?, user)?;
        let stored = writer.store().valves(id, user).await?;
        let values = change(schema, &stored)?;
        let values = schema.check_update(&schema.unmask(&values, &stored)).map_err(misfit)?;
        match user {
            Some(_) => check_size(&values)?,
            None => check_hosts(known(&snapshot, id)?, given, &values)?,
        }
        writer.store().replace_valves(id, user, &schema.marked(&values), by).await?;
        drop(writer);
        self.host.reload_with(id).await;
        Ok(shown(Some(schema), &values))
    }

    /// Resets these keys to the values of the configuration and the script; all keys if the list is empty.
    /// Values left by an older version of the script can be reset too.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin or key, and if the store cannot be written.
    pub async fn reset_valves(
        &self,
        id: &str,
        user: Option<&str>,
        keys: &[String],
        by: &str,
    ) -> Result<Json, AdminError> {
        let writer = self.host.writer().await?;
        let snapshot = self.host.snapshot();
        let schema = schema(known(&snapshot, id)?, user)?;
        let stored = writer.store().valves(id, user).await?;
        if let Some(key) = keys.iter().find(|key| stored.get(key).is_none()) {
            schema.check(key, &Json::Null).or_else(none_if_known).map_err(misfit)?;
        }
        writer.store().reset_valves(id, user, keys, by).await?;
        let stored = writer.store().valves(id, user).await?;
        drop(writer);
        self.host.reload_with(id).await;
        Ok(shown(Some(schema), &stored))
    }

    /// Returns the stored values, masked.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin, and if the store cannot be read.
    pub async fn stored_valves(&self, id: &str, user: Option<&str>) -> Result<Json, AdminError> {
        let snapshot = self.host.snapshot();
        let plugin = known(&snapshot, id)?;
        let stored = self.host.store().valves(id, user).await?;
        // A script that does not load has no schema that marks secrets, so all values are masked.
        Ok(shown(schema(plugin, user).ok(), &stored))
    }

    /// Returns the effective values, masked, each with its source.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin, and if the store cannot be read.
    pub fn effective_valves(&self, id: &str) -> Result<BTreeMap<String, EffectiveValve>, AdminError> {
        let snapshot = self.host.snapshot();
        let plugin = known(&snapshot, id)?;
        let schema = schema(plugin, None)?;
        let Some(script) = &plugin.script else { return Ok(BTreeMap::new()) };
        let (values, layers) = (schema.mask(&script.valves), script.valve_layers());
        let fields = schema.fields().iter().map(|field| {
            let source = match schema.layer_in_force(&field.name, &layers) {
                None => "default",
                Some(0) => "configuration",
                Some(_) => "stored",
            };
            (field.name.clone(), EffectiveValve { value: values.field(&field.name).into(), source })
        });
        Ok(fields.collect())
    }

    /// Switches a plugin; `None` leaves a switch unchanged.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin, and if the store cannot be written.
    pub async fn switch(
        &self,
        id: &str,
        enabled: Option<bool>,
        global: Option<bool>,
        by: &str,
    ) -> Result<Arc<Snapshot>, AdminError> {
        self.switch_by(id, by, |_| Ok(Switch { enabled, global, ..Switch::default() })).await
    }

    /// Enables a disabled plugin, and disables an enabled one.
    ///
    /// # Errors
    /// Returns the errors of [`Admin::switch`].
    pub async fn toggle(&self, id: &str, by: &str) -> Result<Arc<Snapshot>, AdminError> {
        let switched = |plugin: &Plugin| Switch { enabled: Some(!plugin.enabled), ..Switch::default() };
        self.switch_by(id, by, |plugin| Ok(switched(plugin))).await
    }

    /// Toggles whether a plugin applies to models that do not list it.
    ///
    /// # Errors
    /// Returns the errors of [`Admin::switch`].
    pub async fn toggle_global(&self, id: &str, by: &str) -> Result<Arc<Snapshot>, AdminError> {
        let switched = |plugin: &Plugin| Switch { global: Some(!plugin.global), ..Switch::default() };
        self.switch_by(id, by, |plugin| Ok(switched(plugin))).await
    }

    /// Puts a filter in audit mode, or ends it.
    ///
    /// # Errors
    /// Returns the errors of [`Admin::switch`], and a refusal for a plugin that is not a filter.
    pub async fn toggle_audit(&self, id: &str, by: &str) -> Result<Arc<Snapshot>, AdminError> {
        self.switch_by(id, by, |plugin| audit_switch(plugin, !plugin.audited)).await
    }

    async fn switch_by(
        &self,
        id: &str,
        by: &str,
        switched: impl FnOnce(&Plugin) -> Result<Switch, AdminError>,
    ) -> Result<Arc<Snapshot>, AdminError> {
        // Switches are serialized: each one sees the result of the one before.
        let _one_at_a_time = self.switching.lock().await;
        let switch = Switch { plugin: id.to_owned(), ..switched(&*self.plugin(id)?)? };
        self.host.store().set_switch(&switch, by).await?;
        Ok(self.host.reload_with(id).await)
    }
}

/// Returns the switch that starts or ends the audit mode of a filter.
///
/// # Errors
/// Returns a refusal for a plugin that is not a filter.
pub fn audit_switch(plugin: &Plugin, audit: bool) -> Result<Switch, AdminError> {
    if plugin.kind != Kind::Filter {
        let message = format!("cannot switch the audit mode of `{}`: only filters have one", plugin.id);
        return Err(AdminError::conflict(message, "not_a_filter"));
    }
    Ok(Switch { plugin: plugin.id.to_string(), audit: Some(audit), ..Switch::default() })
}

/// Returns a refusal for a key that the schema does not declare.
fn check_keys(schema: &ValveSchema, keys: impl Iterator<Item = impl AsRef<str>>) -> Result<(), AdminError> {
    for key in keys {
        schema.check(key.as_ref(), &Json::Null).or_else(none_if_known).map_err(misfit)?;
    }
    Ok(())
}

/// Returns a refusal if the valves of a user are too large for a plugin to process.
fn check_size(values: &Json) -> Result<(), AdminError> {
    if values.to_string().len() <= MAX_USER_VALVES {
        return Ok(());
    }
    let message = format!(
        "the values exceeded the limit of {} KiB of a user's valves; nothing was changed",
        MAX_USER_VALVES / 1024
    );
    let kind = RequestErrorKind::TooLarge;
    Err(Error::Request { message, param: Some("valves"), code: Some("valves_too_large"), kind }.into())
}

/// Returns a refusal if a valve opens another host, to which a secret would go that whoever changes the valve may not know:
/// one that is not given with it.
fn check_hosts(plugin: &Plugin, given: &Json, values: &Json) -> Result<(), AdminError> {
    let Some(script) = &plugin.script else { return Ok(()) };
    let opens = script.manifest.allow_hosts.iter().filter_map(|host| host.strip_prefix("valve:"));
    let origin = |value: &Json| match url::Url::parse(value.str_or_empty()) {
        Ok(url) => url.origin().ascii_serialization(),
        Err(_) => value.to_string(),
    };
    let is_changed = |valve: &&str| {
        let new = values.get(valve);
        new.is_some_and(|new| script.valves.get(valve).map(|old| origin(&old)) != Some(origin(&new)))
    };
    let Some(valve) = opens.into_iter().find(is_changed) else { return Ok(()) };
    let mut secrets = script.manifest.valves.fields().iter().filter(|field| field.secret);
    let is_kept = |name: &str| {
        script.valves.get(name).is_some_and(|value| !value.is_empty())
            && given.get(name).is_none_or(|value| value.as_str() == Some(MASK))
    };
    let Some(kept) = secrets.find(|field| is_kept(&field.name)) else { return Ok(()) };
    let (id, secret) = (&plugin.id, &kept.name);
    let message = format!(
        "cannot change `{valve}` of `{id}` alone: the secret `{secret}` would be sent there; set both together; nothing was changed"
    );
    Err(AdminError::conflict(message, "secret_of_another_host"))
}

/// Returns the schema of the valves that operators, or a user, may set.
///
/// # Errors
/// Returns a refusal for an unknown plugin.
pub fn schema<'a>(plugin: &'a Plugin, user: Option<&str>) -> Result<&'a ValveSchema, AdminError> {
    let id = &plugin.id;
    let manifest = plugin.script.as_ref().map(|script| &script.manifest).ok_or_else(|| {
        let message = format!("cannot read the valves of `{id}`: it has never loaded");
        AdminError::conflict(message, "does_not_load")
    })?;
    match user {
        None => Ok(&manifest.valves),
        Some(_) => manifest
            .user_valves
            .as_ref()
            .ok_or_else(|| AdminError::missing(format!("`{id}` has no user valves"), "no_user_valves")),
    }
}

/// Returns stored values with secrets masked. Undeclared values are masked as well, because they may be
/// secrets of an older version. Without a schema, everything is masked.
pub fn shown(schema: Option<&ValveSchema>, values: &Json) -> Json {
    let masked = schema.map_or_else(|| values.clone(), |schema| schema.mask(values));
    let entries = masked.entries().into_iter();
    let is_declared = |key: &str| schema.is_some_and(|schema| schema.field(key).is_some());
    let shown = entries.filter(|(key, _)| !is_mark(key)).map(|(key, value)| {
        let is_open = is_declared(&key) && !was_secret(values, &key);
        // An empty value is not a secret.
        let is_empty = is_declared(&key) && value.is_empty();
        let value = if is_open || is_empty { value.deep_clone() } else { Json::from(MASK) };
        (key, value)
    });
    shown.collect::<Object>().into()
}

fn misfit(error: ValveError) -> AdminError {
    Error::invalid(format!("{error}; nothing was changed"), Some("valves")).into()
}

/// Accepts an error other than an unknown key: null is a valid value of few valves, and a reset only needs a
/// known key.
fn none_if_known(error: ValveError) -> Result<Json, ValveError> {
    if error.rule == "unknown" { Err(error) } else { Ok(Json::Null) }
}
