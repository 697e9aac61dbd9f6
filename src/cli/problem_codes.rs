//! `valvehouse explain CODE`: the meaning of problem codes.

use valvehouse_core::text::did_you_mean;
use valvehouse_json::Json;
use valvehouse_script::Code;
use valvehouse_terminal::{CommandError, Console, Exit, table};

/// Explains a problem code, or lists all codes.
pub(super) fn run(code: Option<&str>, out: &Console) -> Result<Exit, CommandError> {
    match code {
        Some(id) => one(id, out)?,
        None => all(out)?,
    }
    Ok(Exit::Done)
}

fn one(id: &str, out: &Console) -> Result<(), CommandError> {
    let Some(code) = Code::from_name(id) else {
        let hint = did_you_mean(id, Code::all().into_iter().map(Code::id));
        return Err(CommandError::usage(format!(
            "unknown code `{id}`{hint}; valvehouse explain --codes lists all codes"
        )));
    };
    if out.is_json() {
        let page = Json::from([
            ("code", code.id().into()),
            ("title", code.title().into()),
            ("page", code.page().into()),
        ]);
        return Ok(out.json(&page)?);
    }
    out.line(&out.results().bold(&format!("{code}: {}", code.title())))?;
    Ok(out.line(&format!("\n{}", code.page()))?)
}

fn all(out: &Console) -> Result<(), CommandError> {
    if out.is_json() {
        let entry = |code: &Code| Json::from([("code", code.id().into()), ("title", code.title().into())]);
        return Ok(out.json(&Code::all().iter().map(entry).collect::<Vec<_>>().into())?);
    }
    let rows =
        Code::all().into_iter().map(|code| vec![out.results().bold(code.id()), code.title().to_owned()]);
    Ok(out.line(&table(&rows.collect::<Vec<_>>()))?)
}
