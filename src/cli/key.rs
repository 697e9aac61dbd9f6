//! `valvehouse key`: the keys in the store, and keys with their hashes for the configuration.

use super::args::{KeyAction, KeyRole, RightsOfKey};
use super::history::refused;
use super::project::{self, author};
use super::usage;
use valvehouse_config::Config;
use valvehouse_host::access::{Digest, KeyRights, OperatorRole};
use valvehouse_host::admin::{self, KeyEntry, NewKey};
use valvehouse_json::Json;
use valvehouse_store::seal::random_word;
use valvehouse_store::{self as store, Kv, Store};
use valvehouse_terminal::files::read_stdin;
use valvehouse_terminal::{CommandError, Console, Exit, clean, table};

/// The maximum size of a key, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Creates a key that is not stored, or prints the hash of the one on stdin.
pub(super) fn generate(is_given: bool, out: &Console) -> Result<Exit, CommandError> {
    let made = (!is_given).then(|| format!("vh-{}", random_word()));
    let key = match &made {
        Some(key) => key.clone(),
        None => given()?,
    };
    let hash = Digest::of(&key).to_string();
    if out.is_json() {
        out.json(&Json::from([("key", made.into()), ("hash", hash.into())]))?;
        return Ok(Exit::Done);
    }
    if let Some(key) = &made {
        out.line(&format!("key   {key}"))?;
        out.line(&format!("hash  {hash}"))?;
        out.note(
            "hand the key to the client, and write the hash to valvehouse.toml ([server] keys or [admin] key); `valvehouse key create --name NAME` stores a key with limits instead",
        );
    } else {
        out.line(&hash)?;
    }
    Ok(Exit::Done)
}

/// Returns the key on stdin without the line break.
fn given() -> Result<String, CommandError> {
    match read_stdin(MAX_BYTES)?.trim() {
        "" => Err(CommandError::usage("missing key on stdin: valvehouse key --hash < key.txt")),
        key => Ok(key.to_owned()),
    }
}

/// Changes or lists the keys in the store.
pub(super) async fn run(action: KeyAction, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let only_reads = matches!(action, KeyAction::List | KeyAction::Show { .. });
    let store = match only_reads {
        true => store::open_to_read(&config.store).await?,
        false => store::open(&config.store).await?,
    };
    let exit = match action {
        KeyAction::Create(new) => {
            let before = KeyRights { role: new.role.map(role), ..KeyRights::default() };
            let rights = rights(new.rights, before);
            let created = admin::create_key(&store, &new.name, rights, &author()).await.map_err(refused)?;
            hand_out(&store, &created, out).await
        }
        KeyAction::Change { name, rights: named } => {
            let kv = Kv::load(store.kv_all().await?);
            let key = admin::key_entry(&store, &kv, &name).await.map_err(refused)?;
            let rights = rights(*named, key.record().rights.clone());
            let generation = admin::change_key(&store, &name, rights).await.map_err(refused)?;
            changed("changed the rights of", &store, &name, generation, out).await
        }
        KeyAction::Rotate { name } => {
            let rotated = admin::rotate_key(&store, &name).await.map_err(refused)?;
            hand_out(&store, &rotated, out).await
        }
        KeyAction::Revoke { name } => {
            let generation = admin::revoke_key(&store, &name).await.map_err(refused)?;
            changed("revoked", &store, &name, generation, out).await
        }
        KeyAction::List => {
            let kv = Kv::load(store.kv_all().await?);
            list(&admin::key_entries(&store, &kv).await.map_err(refused)?, out)
        }
        KeyAction::Show { name } => {
            let kv = Kv::load(store.kv_all().await?);
            show(&admin::key_entry(&store, &kv, &name).await.map_err(refused)?, out)
        }
    };
    store.close().await;
    exit
}

fn role(role: KeyRole) -> OperatorRole {
    match role {
        KeyRole::Read => OperatorRole::Read,
        KeyRole::Tune => OperatorRole::Tune,
        KeyRole::Write => OperatorRole::Write,
        KeyRole::Admin => OperatorRole::Admin,
    }
}

/// Returns the rights that the arguments name, and the others as before.
fn rights(named: RightsOfKey, before: KeyRights) -> KeyRights {
    KeyRights {
        user: named.user.or(before.user),
        // Other commands write `@` before it.
        group: named.group.map(|group| group.trim_start_matches('@').to_owned()).or(before.group),
        role: before.role,
        models: if named.models.is_empty() { before.models } else { named.models },
        requests_per_minute: named.requests_per_minute.or(before.requests_per_minute),
        tokens_per_day: named.tokens_per_day.or(before.tokens_per_day),
        tokens_per_month: named.tokens_per_month.or(before.tokens_per_month),
        cost_per_day: named.cost_per_day.or(before.cost_per_day),
        cost_per_month: named.cost_per_month.or(before.cost_per_month),
        expires_at: named.expires.or(before.expires_at),
    }
}

async fn hand_out(store: &Store, key: &NewKey, out: &Console) -> Result<Exit, CommandError> {
    let reach = project::reach(store, key.generation).await?;
    if out.is_json() {
        let (name, word) = (key.name.as_str().into(), key.key.clone().into());
        out.json(&Json::from([("name", name), ("key", word), ("reach", reach.as_json())]))?;
    } else if let Some(word) = &key.key {
        out.line(word)?;
        out.note(&format!("the key of `{}`, which is shown only now — {}", key.name, reach.in_words()));
    } else {
        out.line(&format!("created the group `{}` — {}", key.name, reach.in_words()))?;
    }
    Ok(reach.exit())
}

async fn changed(
    done: &str,
    store: &Store,
    name: &str,
    generation: u64,
    out: &Console,
) -> Result<Exit, CommandError> {
    let reach = project::reach(store, generation).await?;
    if out.is_json() {
        out.json(&Json::from([("name", name.into()), ("reach", reach.as_json())]))?;
    } else {
        out.line(&format!("{done} the key `{name}` — {}", reach.in_words()))?;
    }
    Ok(reach.exit())
}

fn list(keys: &[KeyEntry], out: &Console) -> Result<Exit, CommandError> {
    if out.is_json() {
        let keys: Vec<Json> = keys.iter().map(KeyEntry::to_json).collect();
        out.json(&Json::from([("keys", keys.into())]))?;
        return Ok(Exit::Done);
    }
    if keys.is_empty() {
        out.note("no keys are stored; create one with `valvehouse key create --name NAME`");
        return Ok(Exit::Done);
    }
    let paint = out.results();
    let titles =
        ["NAME", "STATE", "USER", "MODELS", "LIMITS", "USED TODAY", "USED THIS MONTH", "LAST USE", "EXPIRES"];
    let mut rows = vec![titles.map(|word| paint.dim(word)).to_vec()];
    rows.extend(keys.iter().map(|key| {
        let (rights, used) = (&key.record().rights, key.spent);
        let state = match key.state.word() {
            "valid" => rights.role.map_or("valid".to_owned(), |role| format!("valid, {role}")),
            state => paint.red(state),
        };
        let models = if rights.models.is_empty() { "all".to_owned() } else { rights.models.join(", ") };
        vec![
            paint.bold(&key.name),
            state,
            clean(&holders(rights)),
            clean(&models),
            limits(rights).join(", "),
            spent(used.tokens_today, used.cost_today),
            spent(used.tokens_this_month, used.cost_this_month),
            key.used_at.map_or("never".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M").to_string()),
            rights.expires_at.map_or(String::new(), |at| at.strftime("%Y-%m-%d").to_string()),
        ]
    }));
    out.line(&table(&rows))?;
    Ok(Exit::Done)
}

/// Returns the user and the group of a key: `ann @research`.
fn holders(rights: &KeyRights) -> String {
    let group = rights.group.as_ref().map(|group| format!("@{group}"));
    rights.user.iter().cloned().chain(group).collect::<Vec<_>>().join(" ")
}

fn show(key: &KeyEntry, out: &Console) -> Result<Exit, CommandError> {
    if out.is_json() {
        out.json(&key.to_json())?;
        return Ok(Exit::Done);
    }
    list(std::slice::from_ref(key), out)?;
    let record = key.record();
    let created = record.created_at.strftime("%Y-%m-%d %H:%M");
    out.note(&format!("created on {created} UTC by {}", clean(&record.created_by)));
    Ok(Exit::Done)
}

fn spent(tokens: u64, cost: f64) -> String {
    match cost == 0.0 {
        true => format!("{tokens} tokens"),
        false => format!("{tokens} tokens, {}", usage::cost(cost)),
    }
}

/// Returns the limits of a key in words.
fn limits(rights: &KeyRights) -> Vec<String> {
    let count = |count: Option<u64>, unit: &str| count.map(|count| format!("{count} {unit}"));
    let cost = |cost: Option<f64>, unit: &str| cost.map(|cost| format!("{cost} {unit}"));
    let all = [
        count(rights.requests_per_minute.map(u64::from), "requests/min"),
        count(rights.tokens_per_day, "tokens/day"),
        count(rights.tokens_per_month, "tokens/month"),
        cost(rights.cost_per_day, "cost/day"),
        cost(rights.cost_per_month, "cost/month"),
    ];
    all.into_iter().flatten().collect()
}
