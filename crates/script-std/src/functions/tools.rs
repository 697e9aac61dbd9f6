//! `tools::list`, `tools::call`, `tools::all`: a script calls tools of this host.

use super::argument::{AnyArray, AnyMap, RhaiResultOf, effect, fail, items, running, unfit};
use super::waiting::{Options, run_beside};
use rhai::{Array, Dynamic, EvalAltResult, FnNamespace, FnPtr, Map, Module};
use std::sync::Arc;
use valvehouse_core::context::Turn;
use valvehouse_core::error::{Error, Rejection};
use valvehouse_core::kernel::Kernel;
use valvehouse_core::text::did_you_mean;
use valvehouse_core::tool::{Tool, ToolSpec};
use valvehouse_dialect::answer::ThrownError;
use valvehouse_dialect::budget;
use valvehouse_dialect::call::resources::{Resources, Tools};
use valvehouse_dialect::value::{KernelHandle, Shape, json_of, live};
use valvehouse_executor::Job;
use valvehouse_grants::Grant;
use valvehouse_json::{Json, Object};

const CALL: &str = "tools::call";
const INVOKE: &str = "invoke";
const ALL: &str = "tools::all";
/// The approximate maximum size of the arguments of one call, in bytes.
const MAX_ARGUMENTS: usize = 1 << 20;
/// The maximum number of names in a message about an unknown tool.
const SHOWN: usize = 30;

pub(super) fn module() -> Module {
    let mut module = Module::new();
    effect(
        "list",
        &["Array"],
        "Returns the tools that the script may call: those that the turn offers, and the granted ones. A \
         list of `#{ name, description, parameters, tags, metadata }`; `parameters` is a JSON schema.",
    )
    .set_into_module(&mut module, list);
    effect(
        "call",
        &["name: &str", "arguments: map", "any"],
        "Calls a tool like a model: arguments are checked, filters run, and a person approves the call if \
         needed. Returns the result; throws the tool's error.",
    )
    .set_into_module(&mut module, |name: &str, arguments: AnyMap| call(CALL, name, &arguments));
    effect("call", &["name: &str", "any"], "Calls a tool without arguments, like `tools::call`.")
        .set_into_module(&mut module, |name: &str| call(CALL, name, &Map::new().into()));
    effect(
        "all",
        &["calls: array", "Array"],
        "Calls several tools in parallel: `tools::all([#{ name: \"weather\", args: #{ city: \"Rome\" } \
         }])`. Returns the results in order. At most 8 run at a time, even with a higher `limit`. If one \
         fails, the others are canceled and the error is thrown.",
    )
    .set_into_module(&mut module, |calls: AnyArray| all(&calls, &Map::new().into()));
    effect(
        "all",
        &["calls: array", "options: map", "Array"],
        "Like `tools::all` with the options of parallel(): `limit`, and `settle: true` for `#{ value }` or `#{ error }` of each.",
    )
    .set_into_module(&mut module, |calls: AnyArray, options: AnyMap| all(&calls, &options));
    module
}

/// Returns the value of `__tools__`: each tool by its name, with its `spec` and a function value that calls it.
pub fn offered_tools(plugin: Arc<str>, resources: Arc<Resources>, turn: &Turn) -> Dynamic {
    let Ok(reachable) = Reachable::of("__tools__", plugin, resources, turn.clone()) else {
        return Map::new().into();
    };
    let one = |tool: &Tool| {
        let mut callable = FnPtr::new(CALLABLE).ok()?;
        callable.add_curry(tool.name().into());
        let described = tool.spec.describe();
        let spec = ["name", "description", "parameters"].map(|key| (key.into(), described.field(key)));
        let spec = Json::Object(spec.into_iter().collect::<Object>());
        let entry =
            Map::from([("spec".into(), live(&spec, Shape::Plain)), ("callable".into(), callable.into())]);
        Some((tool.name().into(), entry.into()))
    };
    reachable.all().iter().filter_map(one).collect::<Map>().into()
}

/// Creates functions that call the tools with these names, for code of a model.
pub fn tool_functions<'a>(names: impl Iterator<Item = &'a str>) -> Module {
    let mut module = Module::new();
    for name in names {
        let function =
            |params: &[&str]| effect(name, params, "Calls a tool.").with_namespace(FnNamespace::Global);
        let (own, bare) = (name.to_owned(), name.to_owned());
        function(&["arguments: map", "any"])
            .set_into_module(&mut module, move |arguments: AnyMap| call(CALL, &own, &arguments));
        function(&["any"]).set_into_module(&mut module, move || call(CALL, &bare, &Map::new().into()));
    }
    module
}

/// The name of the function that the function values of `__tools__` call.
const CALLABLE: &str = "__call_tool__";

pub(crate) fn register_callable(module: &mut Module) {
    let function = |params: &[&str]| {
        effect(CALLABLE, params, "Calls a tool of `__tools__`.").with_namespace(FnNamespace::Global)
    };
    function(&["name: &str", "arguments: map", "any"])
        .set_into_module(module, |name: &str, arguments: AnyMap| call(CALL, name, &arguments));
    function(&["name: &str", "any"])
        .set_into_module(module, |name: &str| call(CALL, name, &Map::new().into()));
    module.set_custom_type::<KernelHandle>("kernel");
    let method = |params: &[&str]| {
        effect(INVOKE, params, "Calls a tool of the turn, like `tools::call`.")
            .with_namespace(FnNamespace::Global)
    };
    method(&["kernel: &mut kernel", "name: &str", "arguments: map", "any"])
        .set_into_module(module, |_: &mut KernelHandle, name: &str, arguments: AnyMap| {
            call("kernel.invoke", name, &arguments)
        });
    method(&["kernel: &mut kernel", "name: &str", "any"])
        .set_into_module(module, |_: &mut KernelHandle, name: &str| {
            call("kernel.invoke", name, &Map::new().into())
        });
}

/// The tools that a call may use.
struct Reachable {
    plugin: Arc<str>,
    resources: Arc<Resources>,
    turn: Turn,
    kernel: Kernel,
}

impl Reachable {
    fn read(name: &str) -> RhaiResultOf<Self> {
        let call = running(name)?;
        Self::of(name, call.caller.plugin.clone(), call.resources, call.turn)
    }

    fn of(name: &str, plugin: Arc<str>, resources: Arc<Resources>, turn: Turn) -> RhaiResultOf<Self> {
        match &resources.tools {
            Tools::Undeclared => {
                return Err(fail(
                    name,
                    "missing capability `tools`; add a line to the opening comment of the file: \
                     requirements: tools",
                ));
            }
            Tools::DryRun => return Err(fail(name, "cannot call tools in a dry run")),
            Tools::Granted { .. } => {}
        }
        let kernel = Kernel::of_turn(&turn).ok_or_else(|| {
            fail(name, "cannot call tools here: only turns of a chat and calls of tools have tools")
        })?;
        Ok(Self { plugin, resources, turn, kernel })
    }

    /// Returns the granted tools of the host that the turn does not offer.
    fn granted(&self, is_meant: impl Fn(&ToolSpec) -> bool) -> Vec<Tool> {
        let Tools::Granted { grant, host: Some(host) } = &self.resources.tools else { return Vec::new() };
        let is_granted = |spec: &ToolSpec| match grant {
            Grant::Nothing => false,
            Grant::Everything => true,
            Grant::Only(words) => words.iter().any(|word| spec.is_meant_by(word)),
        };
        match grant {
            Grant::Nothing => Vec::new(),
            _ => host.tools(&|spec| is_meant(spec) && is_granted(spec)),
        }
    }

    /// Returns all tools, each name once.
    fn all(&self) -> Vec<Tool> {
        let offered = self.kernel.toolbox();
        let mut all: Vec<Tool> = offered.iter().cloned().collect();
        all.extend(self.granted(|spec| offered.find(&spec.name).is_none()));
        all
    }

    fn find(&self, name: &str) -> Option<Tool> {
        let offered = self.kernel.find_tool(name).cloned();
        offered.or_else(|| self.granted(|spec| spec.name == name).into_iter().next())
    }

    /// Returns the rejection that ends the turn of a model's script.
    fn fatal(&self) -> Option<Rejection> {
        self.resources.of_model.as_ref()?.fatal.lock().clone()
    }

    /// Records a rejection that ends the turn, for a script of a model.
    fn note(&self, called: &Result<Json, Error>) {
        if let (Some(model), Err(Error::Rejected(rejection))) = (&self.resources.of_model, called)
            && rejection.fatal
        {
            *model.fatal.lock() = Some(rejection.clone());
        }
    }

    /// Returns the reason why a tool cannot be called.
    fn unknown(&self, name: &str) -> String {
        let all = self.all();
        let names: Vec<&str> = all.iter().map(Tool::name).collect();
        let near = did_you_mean(name, names.iter().copied());
        let known = match names.len() {
            0 => "the turn offers no tools".to_owned(),
            1..=SHOWN => format!("the script may call {}", names.join(", ")),
            more => format!("the script may call {more} tools, see tools::list()"),
        };
        let plugin = &self.plugin;
        if self.resources.of_model.is_some() {
            return format!("unknown tool `{name}`{near}; {known}");
        }
        format!(
            "unknown tool `{name}`{near}; {known}; grant a tool that the turn does not offer with: \
             valvehouse grant {plugin} tools={name}"
        )
    }
}

fn list() -> RhaiResultOf<Dynamic> {
    let reachable = Reachable::read("tools::list")?;
    let described: Vec<Json> = reachable.all().iter().map(|tool| tool.spec.describe()).collect();
    budget::charge(described.len() as u64).map_err(budget::ended)?;
    Ok(live(&described.into(), Shape::Plain))
}

/// Calls a tool; `function` is the name of the called function, for errors.
pub(super) fn call(function: &str, name: &str, args: &Dynamic) -> RhaiResultOf<Dynamic> {
    let reachable = Reachable::read(function)?;
    let Reachable { plugin, turn, kernel, .. } = &reachable;
    let args = match json_of(args)? {
        args @ Json::Object(_) => args.deep_clone(),
        _ => return Err(unfit(function, "arguments", "a map", args)),
    };
    let bytes = args.size_estimate();
    if bytes > MAX_ARGUMENTS {
        let kib = bytes / 1024;
        return Err(fail(
            function,
            format!("the arguments of `{name}` have {kib} KiB and exceeded their limit of 1024 KiB"),
        ));
    }
    let tool = reachable.find(name).ok_or_else(|| fail(function, reachable.unknown(name)))?;
    if turn.is_paused() {
        return Err(budget::ended(budget::ExceededLimit::Paused));
    }
    if let Some(rejection) = reachable.fatal() {
        return Err(ThrownError::refused(rejection));
    }
    // If the step runs again, the turn has the tool's result and people's answers, but filters see the call again.
    let called = kernel.call_for(plugin, &tool, args.deep_clone(), turn);
    let called = budget::wait(turn, called)?;
    reachable.note(&called);
    let value = called.map_err(|error| thrown(function, name, error, turn))?;
    Ok(live(&value.deep_clone(), Shape::Plain))
}

/// Converts an error into one that a script can catch.
fn thrown(function: &str, tool: &str, error: Error, turn: &Turn) -> Box<EvalAltResult> {
    match error {
        Error::Paused => budget::ended(budget::ExceededLimit::Paused),
        _ if turn.is_paused() => budget::ended(budget::ExceededLimit::Paused),
        // The rejection ends the turn, unless the script catches it.
        Error::Rejected(rejection) if rejection.fatal => ThrownError::refused(rejection),
        Error::Rejected(Rejection { message, .. }) => fail(function, format!("{tool}: {message}")),
        other => fail(function, format!("{tool}: {other}")),
    }
}

/// Calls several tools concurrently.
fn all(calls: &Dynamic, options: &Dynamic) -> RhaiResultOf<Array> {
    let options = Options::of(ALL, options)?;
    let (limit, settles) = (options.limit()?, options.truth("settle")?);
    let mut requested = Vec::new();
    for one in items(ALL, "calls", calls)? {
        let json = json_of(&one)?;
        let name = json.text("name");
        let unknown = json.entries().into_iter();
        let unknown = unknown.map(|(key, _)| key).find(|key| !["name", "args"].contains(&key.as_str()));
        let (Some(name), None) = (name, unknown) else {
            return Err(unfit(
                ALL,
                "calls",
                "an array of maps, #{ name: \"weather\", args: #{ … } } each",
                &one,
            ));
        };
        let args = json.get("args").filter(|args| !args.is_null()).unwrap_or_else(Json::object);
        requested.push((name.to_string(), live(&args, Shape::Plain)));
    }
    let works = requested.iter().map(|(name, args)| Box::new(|| call(ALL, name, args)) as Job<'_, _>);
    let call = running(ALL)?;
    run_beside(&call.turn, works.collect(), limit, settles)
}
