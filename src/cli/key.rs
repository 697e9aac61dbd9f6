//! `valvehouse key`: creates keys, and the hashes by which they are configured.

use super::args;
use valvehouse_host::access::Digest;
use valvehouse_json::Json;
use valvehouse_store::seal::random_word;
use valvehouse_terminal::files::read_stdin;
use valvehouse_terminal::{CommandError, Console, Exit};

/// The maximum size of a key, in bytes.
const MAX_BYTES: usize = 64 * 1024;

pub(super) fn run(args: &args::Key, out: &Console) -> Result<Exit, CommandError> {
    let made = (!args.hash).then(|| format!("vh-{}", random_word()));
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
            "hand the key to the client, and write the hash to valvehouse.toml ([server] keys or [admin] key)",
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
