//! Reads the declaration of the models that a script offers, when it is loaded.

use super::function::{Offer, PipeFunction};
use crate::declare::hooks::{self, Param};
use crate::declare::schedule::{self, ScheduledCall};
use crate::diagnostic::{Code, Diagnostic};
use crate::load::source::SourceFile;
use crate::script::Script;
use rhai::{AST, EvalAltResult};
use std::time::Duration;
use valvehouse_core::text::did_you_mean;
use valvehouse_core::tool::timeout;
use valvehouse_dialect::answer::summary_of_run;
use valvehouse_dialect::value::json_of;
use valvehouse_grants::Capability;
use valvehouse_json::Json;

/// The time limit of a pipe, including calls of models.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The help for the declaration of a model.
const OFFERS: &str = "`fn pipe(body)` answers as a model within `timeout` milliseconds; `fn pipes()` lists \
                      its models: [#{ id: \"small\", name: \"Small\" }]";
/// The maximum number of models of one script; their names have the same limit, in characters.
const MAX_MODELS: usize = 1_000;
const MAX_ID: usize = 256;

/// Returns `true` if a file offers models.
pub(crate) fn is_pipe(ast: &AST) -> bool {
    ast.iter_functions().any(|function| function.name == "pipe")
}

/// Returns the models of a script.
///
/// # Errors
/// Returns the problems of their declaration.
pub(crate) fn read(script: &Script, source: &str) -> Result<PipeFunction, Vec<Diagnostic>> {
    let problem = |what: String, word: &str| {
        vec![Diagnostic::of(Code::BadPipe, &script.file, what).at_word(source, word).help(OFFERS)]
    };
    // The overload with the most parameters is used.
    let function = script.functions().filter(|function| function.name == "pipe");
    let names = function.map(|function| function.params).max_by_key(Vec::len).unwrap_or_default();
    let params = names.iter().map(|name| match *name {
        "body" => Ok(Param::Subject),
        name if name == hooks::OF_PIPES.0 => Ok(hooks::OF_PIPES.1),
        name => hooks::param(name).ok_or(name),
    });
    let params = params.collect::<Result<Vec<_>, _>>().map_err(|name| {
        let known = ["body", hooks::OF_PIPES.0].into_iter().chain(hooks::param_names());
        let list = known.clone().collect::<Vec<_>>().join(", ");
        let hint = match hooks::help_elsewhere(name) {
            Some(help) => help.to_owned(),
            None => format!("the parameters of `pipe` are {list}{}", did_you_mean(name, known)),
        };
        let unknown = problem(format!("unknown parameter `{name}` of `pipe`"), name);
        unknown
            .into_iter()
            .map(|problem| Diagnostic { code: Code::UnknownParameter, ..problem }.help(hint.clone()))
            .collect::<Vec<_>>()
    })?;
    let asks_for_tools = params.contains(&Param::Tools);
    if asks_for_tools && !script.manifest.requirements.contains(&Capability::Tools) {
        let what = "the parameter `__tools__` is used, but `tools` is not declared in `requirements`";
        let problem = Diagnostic::of(Code::NotDeclared, &script.file, what);
        let problem = problem.at_parameter(source, "pipe", hooks::OF_PIPES.0);
        return Err(vec![problem.undeclared("tools")]);
    }
    let timeout = match script.manifest.get("timeout").filter(|text| !text.is_empty()) {
        Some(given) => timeout(&given.into()).map_err(|why| problem(why.to_string(), "timeout"))?,
        None => TIMEOUT,
    };
    let offers = match script.functions().any(|function| function.name == "pipes") {
        // With `ttl`, the host calls `pipes()` in the background.
        true if script.manifest.ttl.is_some() => {
            match script.settings.lists.get(ScheduledCall::Pipes).map(|list| offers_of(script, list)) {
                Some(Ok(offers)) => offers,
                Some(Err(_)) | None => Vec::new(),
            }
        }
        true => listed(script).map_err(|why| {
            let problems = problem(format!("`pipes()` {why}"), "pipes").into_iter();
            let help = script
                .help_for_list()
                .unwrap_or("write `fn pipes() { [#{ id: \"small\", name: \"Small\" }] }`");
            problems.map(|problem| problem.help(help)).collect::<Vec<_>>()
        })?,
        false => {
            let title = script.manifest.get("title").filter(|title| !title.is_empty());
            let name = title.unwrap_or(script.id()).to_owned();
            vec![Offer { id: script.id().to_owned(), name }]
        }
    };
    Ok(PipeFunction { params, timeout, offers })
}

/// Returns the problem of `pipes` without `pipe`: it offers nothing.
pub(crate) fn misplaced(ast: &AST, file: &SourceFile, source: &str) -> Option<Diagnostic> {
    let lists = ast.iter_functions().any(|function| function.name == "pipes") && !is_pipe(ast);
    lists.then(|| {
        Diagnostic::of(
            Code::BadPipe,
            file,
            "missing `pipe`: `pipes` lists models, but no function answers for them",
        )
        .at_function(source, "pipes")
        .help("write `fn pipe(body) { … }`")
        .warning()
    })
}

fn listed(script: &Script) -> Result<Vec<Offer>, String> {
    let failed = |error: &EvalAltResult| format!("failed: {}", summary_of_run(error));
    let listed = script.list("pipes").map_err(|error| failed(&error))?;
    let written = schedule::written(&listed).map_err(|error| failed(&error))?;
    offers_of(script, &written)
}

/// Checks a list that the host has called `pipes()` for.
///
/// # Errors
/// Returns the reason if the list is invalid.
pub(crate) fn check_list(script: &Script, written: &Json) -> Result<(), String> {
    offers_of(script, written).map(drop).map_err(|why| format!("invalid list of models: `pipes()` {why}"))
}

/// Returns the models of a list.
fn offers_of(script: &Script, written: &Json) -> Result<Vec<Offer>, String> {
    let listed = schedule::read(written).and_then(|list| json_of(&list));
    let Ok(Json::Array(listed)) = listed else {
        return Err("must return a list, such as [#{ id: \"small\", name: \"Small\" }]".into());
    };
    if listed.len() > MAX_MODELS {
        return Err(format!("lists {} models, which exceeds the limit of {MAX_MODELS}", listed.len()));
    }
    let mut offers: Vec<Offer> = Vec::new();
    for one in listed.items() {
        let id = match &one {
            Json::Text(id) => id.as_str().into(),
            one => one.text("id").ok_or_else(|| {
                format!("lists {one}, which is not a text or a map #{{ id: \"small\", name: \"Small\" }}")
            })?,
        };
        if id.is_empty()
            || id.len() > MAX_ID
            || id.chars().any(|letter| letter.is_whitespace() || letter.is_control())
        {
            return Err(format!(
                "lists the invalid id {:?}; an id has 1 to {MAX_ID} characters without white space",
                id
            ));
        }
        let name = one.text("name").unwrap_or_else(|| id.clone()).into();
        let id = format!("{}.{id}", script.id());
        if offers.iter().any(|known| known.id == id) {
            return Err(format!("lists `{id}` twice"));
        }
        offers.push(Offer { id, name });
    }
    Ok(offers)
}
