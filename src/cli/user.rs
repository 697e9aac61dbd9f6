//! `valvehouse user`: shows or deletes the stored records of a user.

use super::remote::Remote;
use super::{args, running};
use valvehouse_config::Config;
use valvehouse_json::Json;
use valvehouse_store::{self as store, Kv};
use valvehouse_terminal::{CommandError, Console, Exit, clean};

/// The names of the numbers with their descriptions.
const COUNTED: [(&str, &str); 6] = [
    ("memories", "memories"),
    ("vectors", "vectors of scripts"),
    ("conversations", "conversations"),
    ("valves", "plugins with valves of the user"),
    ("entries", "entries of kv::user and kv::chat"),
    ("responses", "stored responses"),
];

pub(super) async fn run(args: &args::User, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let (user, is_deletion) = match args {
        args::User::Show { user } => (user, false),
        args::User::Forget { user, yes } => (user, *yes),
    };
    if user.trim().is_empty() {
        return Err(CommandError::usage("invalid user: expected an id, got an empty text"));
    }
    let records = match running::addresses(&config.project).is_empty() {
        true => stored(user, is_deletion, config).await?,
        // The host holds kv entries in memory, so it has to delete them.
        false => {
            let (host, way) = (Remote::of(config, None)?, ["api", "v1", "users", user, "records"]);
            if is_deletion { host.delete(&way).await? } else { host.get(&way, &[]).await? }
        }
    };
    if out.is_json() {
        out.json(&Json::from([
            ("user", user.as_str().into()),
            ("records", records),
            ("deleted", is_deletion.into()),
        ]))?;
    } else {
        for (key, words) in COUNTED {
            out.line(&format!("{words:<32} {:>8}", records.count(key)))?;
        }
    }
    match args {
        args::User::Forget { yes: false, .. } => {
            let user = clean(&as_argument(user));
            Err(CommandError::usage(format!(
                "nothing was deleted; to delete all of this permanently: valvehouse user forget --yes {user}"
            )))
        }
        args::User::Forget { .. } => {
            out.note(&clean(&format!("deleted the stored records of `{user}`")));
            Ok(Exit::Done)
        }
        args::User::Show { .. } => Ok(Exit::Done),
    }
}

/// Returns a text as an argument of a shell.
fn as_argument(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-.:@/+".contains(letter);
    let end = if text.starts_with('-') { "-- " } else { "" };
    match text.chars().all(is_plain) {
        true => format!("{end}{text}"),
        false => format!("{end}'{}'", text.replace('\'', r"'\''")),
    }
}

/// Counts or deletes the records directly in the store.
async fn stored(user: &str, is_deletion: bool, config: &Config) -> Result<Json, CommandError> {
    let store = store::open_to_read(&config.store).await?;
    let records = match is_deletion {
        true => store.forget_user(&Kv::load(store.kv_all().await?), user).await,
        false => store.user_records(user).await,
    };
    store.close().await;
    Ok(Json::from_serialize(&records?).expect("numbers are JSON"))
}
