//! Reports constants at the top level that nothing reads and that are almost a declaration: a misspelled one, or a key
//! of the opening comment.

use crate::check::names::Names;
use crate::declare::guard_claim;
use crate::declare::manifest::{CONSTANTS, Manifest};
use crate::diagnostic::{Code, Diagnostic, MAX_PROBLEMS};
use crate::load::source::{Kind, SourceFile};
use rhai::AST;
use valvehouse_core::text::nearest;
use valvehouse_json::Json;
use valvehouse_script_std::reference;

/// The length up to which a name is too short to be almost another one.
const SHORT: usize = 3;

/// Returns the problems of the constants of a file. One that wants to be a guard is an error.
pub(crate) fn constants(
    as_written: &AST,
    constants: &[(String, Json)],
    manifest: &Manifest,
    file: &SourceFile,
    source: &str,
) -> Vec<Diagnostic> {
    let read = Names::of(as_written).variables;
    let is_other = |name: &str| !CONSTANTS.contains(&name) && !read.contains(name);
    let others = constants.iter().filter(|(name, _)| is_other(name)).take(MAX_PROBLEMS);
    let problems = others.filter_map(|(name, value)| {
        let claims_guard = file.kind == Kind::Filter && guard_claim::is_claim_of_constant(name);
        if claims_guard && (manifest.security || value.is_empty() || value.as_bool() == Some(false)) {
            return None;
        }
        if claims_guard {
            // `const security` itself is reported where the declarations are read.
            let what = format!("`const {name}` does not make this file a guard");
            let problem = Diagnostic::of(Code::UnclearGuard, file, what).at_word(source, name);
            let help =
                "write `security: true` in the comment at the start of the file, or rename the constant";
            return (name != "security").then(|| problem.help(help));
        }
        let keys = || reference::frontmatter().iter().map(|key| key.name);
        let same = |known: &str| guard_claim::folded(known) == guard_claim::folded(name);
        let near = || nearest(name, CONSTANTS).filter(|_| name.len() > SHORT);
        let warning =
            |what: String| Diagnostic::of(Code::UnknownKey, file, what).at_word(source, name).warning();
        if let Some(meant) = CONSTANTS.into_iter().find(|known| same(known)).or_else(near) {
            let what = format!("unknown constant `{name}`: nothing reads it");
            return Some(warning(what).meant(meant));
        }
        let near_key = || nearest(name, keys()).filter(|_| name.len() > SHORT);
        let key = keys().find(|key| same(key)).or_else(near_key)?;
        let shown = match value {
            Json::Text(text) => text.to_string(),
            Json::Array(_) | Json::Object(_) | Json::Null => "…".to_owned(),
            plain => plain.to_string(),
        };
        let what = format!("`const {name}` has no effect: `{key}` is a key of the opening comment");
        Some(warning(what).help(format!("write `{key}: {shown}` in the comment at the start of the file")))
    });
    problems.collect()
}
