//! The declarations and values of a session, and the evaluation of lines within the budget of a tool.

use crate::UserValves;
use crate::check::names::{self, Names};
use crate::declare::hooks;
use crate::diagnostic::{self, Code, Diagnostic};
use crate::load::compile::ParsedFile;
use crate::load::link::{self, LinkedModules};
use crate::script::Script;
use rhai::{AST, Dynamic, EvalAltResult, FnPtr, Position, Scope};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::context::Turn;
use valvehouse_dialect::answer::{HookAnswer, ThrownError, summary_of_run};
use valvehouse_dialect::budget::{self, Budget, Guard};
use valvehouse_dialect::call::RunningCall;
use valvehouse_dialect::language;
use valvehouse_dialect::syntax::folding::known_to;
use valvehouse_dialect::syntax::{folding, tokens};
use valvehouse_dialect::value::{Misspelt, Shape, json_of, live, property_accessors};
use valvehouse_json::Json;
use valvehouse_script_std::engine;

/// The running time limit of a line; also its wall-clock limit.
const TIME: Duration = Duration::from_secs(5);
const WALL: Duration = Duration::from_secs(120);

/// The file name of a line in problems.
const PLACE: &str = "line";

/// The result of a line.
#[derive(Debug, Clone, PartialEq)]
pub enum LineResult {
    /// The unit value `()`.
    Nothing,
    /// A value, and the name of its type.
    Value(Json, String),
    /// A value without a JSON form, as text.
    Other(String),
}

/// An interactive session in the context of a script.
pub struct Repl {
    script: Arc<Script>,
    /// The script's imports.
    linked: LinkedModules,
    /// The values of its constants.
    constants: HashMap<String, Dynamic>,
    /// The functions that lines declared.
    own: AST,
    /// The variables of the host and of lines.
    scope: Scope<'static>,
}

impl Repl {
    /// Creates a session in the context of this script.
    ///
    /// # Errors
    /// Returns the first problem of the script.
    pub fn new(script: Arc<Script>) -> Result<Self, Diagnostic> {
        let source = script.file.text.trim_start_matches('\u{feff}');
        let parsed = ParsedFile::of(source)
            .map_err(|error| diagnostic::of_parse(script.id(), &script.file.path, source, &error))?;
        let ParsedFile { as_written, plain, constants, .. } = parsed;
        let (linked, _) = link::link(&script.file, source, &as_written, &script.manifest);
        let constants = constants.iter().map(|(name, value)| (name.clone(), linked.orders.dynamic_of(value)));
        let mut constants: HashMap<String, Dynamic> = constants.collect();
        constants.insert("Valves".into(), script.orders.dynamic_of(&script.valves));
        constants.extend(linked.values.clone());
        constants.extend(functions_of(&plain));
        Ok(Self { script, linked, constants, own: AST::empty(), scope: Scope::new() })
    }

    /// Adopts the variables and functions of an older session.
    #[must_use]
    pub fn in_place_of(self, older: Self) -> Self {
        Self { own: older.own, scope: older.scope, ..self }
    }

    /// Returns the script.
    pub fn script(&self) -> &Arc<Script> {
        &self.script
    }

    /// Sets the variables that correspond to the parameters of hooks: `valves`, `state`, `__user__` and so on, and
    /// `body`.
    pub fn set_the_scene(&mut self, turn: &Turn, users: &UserValves, body: &Json) {
        let given = ["valves", "state", "__id__", "__user__", "__metadata__", "__model__", "__chat_id__"];
        for (name, param) in given.into_iter().filter_map(|name| Some((name, hooks::param(name)?))) {
            let value = self.script.argument(param, turn, users);
            self.put(name, value);
        }
        self.set_body(body);
    }

    /// Declares a variable again, because a line may have declared a constant of that name.
    fn put(&mut self, name: &str, value: Dynamic) {
        self.scope.push_dynamic(name.to_owned(), value);
        self.scope = self.scope.clone_visible();
    }

    /// Sets the variable `body`.
    pub fn set_body(&mut self, body: &Json) {
        self.put("body", live(body, Shape::Body));
    }

    /// Returns the value of a variable; `None` if it does not exist or has no JSON form.
    pub fn variable(&self, name: &str) -> Option<Json> {
        json_of(self.scope.get(name)?).ok()
    }

    /// Returns the names and types of the variables, sorted by name.
    pub fn variables(&self) -> Vec<(String, String)> {
        let all = self.scope.iter().map(|(name, _, value)| (name.to_owned(), kind(&value)));
        let mut all: Vec<(String, String)> = all.collect();
        all.sort();
        all.dedup_by(|one, other| one.0 == other.0);
        all
    }

    /// Runs a line.
    ///
    /// # Errors
    /// Returns the error of the line.
    pub fn evaluate(&mut self, line: &str, turn: &Turn) -> Result<LineResult, Diagnostic> {
        let (engine, line_ast) = self.compile(line)?;
        let functions = self.script.ast.merge(&self.own);
        let own = self.own.merge(&line_ast.clone_functions_only());
        let whole = functions.merge(&line_ast);
        let before = self.scope.len();
        let ran = {
            let _guard = Guard::enter(self.budget());
            let _running = RunningCall::enter(&self.script.caller, turn, self.script.resources.clone());
            engine.eval_ast_with_scope::<Dynamic>(&mut self.scope, &whole).and_then(|value| came(&value))
        };
        match ran {
            Ok(came) => {
                // A final `;` means that the value is not to be shown.
                let came = if line.trim_end().ends_with(';') { LineResult::Nothing } else { came };
                self.own = own;
                // A later variable replaces an older one of the same name.
                self.scope = self.scope.clone_visible();
                Ok(came)
            }
            Err(error) => {
                self.scope.rewind(before);
                Err(self.problem(line, &error))
            }
        }
    }

    fn budget(&self) -> Budget {
        Budget { time: TIME, wall: WALL, hurries_people: false, ..self.script.settings.tool }
    }

    fn compile(&self, line: &str) -> Result<(rhai::Engine, AST), Diagnostic> {
        let wrong = |error: rhai::ParseError| diagnostic::of_parse("", Path::new(PLACE), line, &error);
        let mut engine = engine::new();
        self.linked.register(&mut engine);
        let (as_written, _) = folding::parse(&mut engine, line).map_err(wrong)?;
        let mut constants = self.constants.clone();
        constants.extend(functions_of(&as_written));
        let parameters: HashSet<String> =
            as_written.iter_functions().flat_map(|function| function.params).map(str::to_owned).collect();
        let mut known = known_to(&parameters, &constants);
        for (name, ..) in self.scope.iter_raw() {
            known.push_dynamic(name.to_owned(), Dynamic::UNIT);
        }
        engine.set_strict_variables(true);
        let ast = tokens::compile_with_scope(&engine, &known, line).map_err(wrong)?;
        let names = Names::of(&self.script.ast.merge(&self.own).merge(&as_written));
        let properties = names.properties.iter().map(String::as_str);
        engine.register_global_module(property_accessors(properties, &Misspelt::default()).into());
        language::resolve_names(&mut engine, constants, names.caught.into_iter().collect());
        budget::limit(&mut engine);
        Ok((engine, ast))
    }

    /// Describes an error at its position in the line.
    fn problem(&self, line: &str, error: &EvalAltResult) -> Diagnostic {
        let (position, message) = match error {
            EvalAltResult::ErrorInFunctionCall(name, _, inner, position) if self.is_of_script(name) => {
                (*position, diagnostic::of_run(&self.script.sources, name, inner))
            }
            EvalAltResult::ErrorInFunctionCall(name, _, _, position) => {
                (*position, format!("{}, in {name}", summary_of_run(error)))
            }
            error => (error.position(), self.summary(error)),
        };
        let position = if position.is_none() { Position::new(1, 1) } else { position };
        let problem = Diagnostic::new(Code::Broke, "", Path::new(PLACE), message).at(line, position);
        match diagnostic::help_for_run(error.unwrap_inner()) {
            Some(help) => problem.help(help),
            None => problem,
        }
    }

    fn summary(&self, error: &EvalAltResult) -> String {
        if let EvalAltResult::ErrorRuntime(value, _) = error.unwrap_inner()
            && let Some(thrown) = value.read_lock::<ThrownError>()
            && !thrown.bug
        {
            return format!("refused ({}): {}", thrown.rejection.status, thrown.rejection.message);
        }
        summary_of_run(error)
    }

    fn is_of_script(&self, function: &str) -> bool {
        let is_it = |ast: &AST| ast.iter_functions().any(|own| own.name == function);
        is_it(&self.script.ast) && !is_it(&self.own)
    }
}

/// Returns the functions of a text as function values.
fn functions_of(ast: &AST) -> Vec<(String, Dynamic)> {
    let mut functions = names::functions_as_values(ast);
    let others = ast.iter_functions().filter(|function| !function.name.starts_with("anon$"));
    functions.extend(
        others
            .filter_map(|function| Some((function.name.to_owned(), FnPtr::new(function.name).ok()?.into()))),
    );
    functions
}

fn came(value: &Dynamic) -> Result<LineResult, Box<EvalAltResult>> {
    if value.is_unit() {
        return Ok(LineResult::Nothing);
    }
    if let Some(answer) = value.read_lock::<HookAnswer>() {
        return Ok(LineResult::Other(match &*answer {
            HookAnswer::Skip(value) => format!("skip({value})"),
            HookAnswer::Error(rejection) => format!("error({}): {}", rejection.status, rejection.message),
            HookAnswer::Ok(value, _) => format!("ok({value})"),
        }));
    }
    if let Some(function) = value.read_lock::<FnPtr>() {
        let name = function.fn_name();
        let name = if name.starts_with("anon$") { "a closure" } else { name };
        return Ok(LineResult::Other(format!("{name} (a function)")));
    }
    match json_of(value) {
        // A copy, because a later line may change a live value.
        Ok(json) => Ok(LineResult::Value(json.deep_clone(), kind(value))),
        Err(_) => Ok(LineResult::Other(format!("{value} ({})", kind(value)))),
    }
}

/// Returns the name of a type in scripts.
fn kind(value: &Dynamic) -> String {
    let kind = value.type_name();
    let short = kind.rsplit("::").next().unwrap_or(kind);
    let word = match short {
        "List" | "Array" | "Dynamic>" => "array",
        "Map" => "map",
        "ImmutableString" | "String" => "string",
        "FnPtr" => "function",
        "i64" => "int",
        "f64" => "float",
        "()" => "nothing",
        other => other,
    };
    word.to_owned()
}
