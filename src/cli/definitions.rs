//! `valvehouse definitions`: the functions and types for scripts, as definition files for editors and as a
//! reference.

use super::args;
use std::path::Path;
use valvehouse_authoring::reference;
use valvehouse_core::text::count;
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit};

/// Writes the definitions; works without a valid project.
pub(super) fn run(args: &args::Definitions, project: &Path, out: &Console) -> Result<Exit, CommandError> {
    if args.reference {
        out.line(reference::document().trim_end())?;
        return Ok(Exit::Done);
    }
    let usual = project.join(".valvehouse").join("definitions");
    let folder = args.folder.as_deref().unwrap_or(&usual);
    let failed = |path: &Path, error| {
        CommandError::new(Exit::Unavailable, format!("cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut names = Vec::new();
    for (name, text) in reference::definitions() {
        let path = folder.join(&name);
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
        names.push(name);
    }
    if out.is_json() {
        let files = names.iter().map(|name| Json::from(name.as_str())).collect::<Vec<_>>();
        let folder = folder.display().to_string();
        out.json(&Json::from([("folder", folder.into()), ("files", files.into())]))?;
        return Ok(Exit::Done);
    }
    out.line(&format!("wrote {} to {}", count(names.len(), "file"), folder.display()))?;
    Ok(Exit::Done)
}
