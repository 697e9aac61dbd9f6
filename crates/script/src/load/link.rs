//! Compiles a script's modules and links them with it.
//!
//! All functions of a script and of its modules are in one namespace, so that closures can be passed between them;
//! the names of a module get a unique prefix (see [`valvehouse_dialect::syntax::rename`]). A call such as `words::shout(…)` is resolved
//! by a Rhai module.

use super::imports::{Imports, ModuleFile};
use super::source::{MAX_LINES, SourceFile, check_text};
use super::sources::{Source, Sources};
use crate::check::lint::ModuleFunctions;
use crate::check::{lint, names, shadow};
use crate::declare::manifest::{self, Manifest};
use crate::diagnostic::{self, Code, Diagnostic, MAX_PROBLEMS};
use rhai::{
    AST, ASTNode, Dynamic, Engine, Expr, FnAccess, FnPtr, Module, Position, ScriptFuncDef, Shared, Stmt,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use valvehouse_dialect::instrument;
use valvehouse_dialect::syntax::folding::known_to;
use valvehouse_dialect::syntax::rename::Own;
use valvehouse_dialect::syntax::tokens::RenamePlan;
use valvehouse_dialect::syntax::{folding, literal, rename, tokens};
use valvehouse_dialect::value::KeyOrders;
use valvehouse_json::Json;
use valvehouse_script_std::{engine, functions};

/// The maximum depth of nested imports.
const MAX_CHAIN: usize = 8;

/// The linked modules of a script.
pub(crate) struct LinkedModules {
    /// The functions of all modules.
    pub(crate) functions: AST,
    /// The values of the constants in them.
    pub(crate) values: HashMap<String, Dynamic>,
    /// The unfolded syntax of each module.
    pub(crate) as_written: Vec<AST>,
    /// The key orders of map literals in them and in the script.
    pub(crate) orders: KeyOrders,
    pub(crate) sources: Sources,
    /// The functions of the modules that the script imports.
    pub(crate) imported: ModuleFunctions,
    /// The modules by the names before `::`, which are aliases in the script and prefixes in modules.
    modules: Vec<(String, Shared<Module>)>,
}

impl LinkedModules {
    /// Registers the modules on the engine of the script.
    pub(crate) fn register(&self, engine: &mut Engine) {
        for (name, module) in &self.modules {
            engine.register_static_module(name.as_str(), module.clone());
        }
    }

    /// Returns the values of a script's names: its constants with the effective valves, and its functions.
    pub(crate) fn values_beside(
        &self,
        constants: &[(String, Json)],
        valves: Option<&Json>,
        plain: &AST,
    ) -> HashMap<String, Dynamic> {
        let constants = constants.iter().map(|(name, value)| (name.as_str(), value));
        let literal = constants.chain(valves.map(|valves| ("Valves", valves)));
        let literal = literal.map(|(name, value)| (name.to_owned(), self.orders.dynamic_of(value)));
        literal.chain(names::functions_as_values(plain)).collect()
    }

    /// Registers the modules on the engine that runs the script, with the instrumented functions of all modules.
    pub(crate) fn register_instrumented(&self, engine: &mut Engine, functions: &AST) {
        for (name, module) in &self.modules {
            let Some(prefix) = module.id() else { continue };
            let mut running = public_functions(prefix, functions);
            for (name, value) in module.iter_var() {
                running.set_var(name, value.clone());
            }
            running.build_index();
            engine.register_static_module(name.as_str(), running.into());
        }
    }
}

/// Compiles the modules that a script imports.
pub(crate) fn link(
    file: &SourceFile,
    source: &str,
    as_written: &AST,
    manifest: &Manifest,
) -> (LinkedModules, Vec<Diagnostic>) {
    let mut linker = Linker::new(file, source, Some(manifest));
    let imported = linker.imports_of("", file, source, as_written);
    linker.linked.imported = linker.functions_of(&imported);
    for (alias, index) in imported {
        let module = linker.compiled[index].clone();
        linker.linked.modules.push((alias, module));
    }
    (linker.linked, linker.problems)
}

/// Returns the problems of a module that is checked on its own.
pub(crate) fn check(file: &SourceFile, key: &str) -> Vec<Diagnostic> {
    let mut linker = Linker::new(file, &file.text, None);
    let module = ModuleFile { key: key.to_owned(), path: file.path.clone(), text: file.text.clone() };
    linker.chain.push(module.key.clone());
    linker.module(&module);
    linker.problems
}

struct Linker<'a> {
    script: &'a SourceFile,
    imports: &'a Imports,
    /// The manifest of the importing script; `None` if it is unknown.
    manifest: Option<&'a Manifest>,
    linked: LinkedModules,
    /// The compiled modules, in the order of their prefixes.
    compiled: Vec<Shared<Module>>,
    /// The indexes of modules in `compiled`; `None` if one does not compile.
    indexes: HashMap<String, Option<usize>>,
    /// The modules being compiled, each imported by the previous one.
    chain: Vec<String>,
    problems: Vec<Diagnostic>,
}

impl<'a> Linker<'a> {
    fn new(script: &'a SourceFile, source: &str, manifest: Option<&'a Manifest>) -> Self {
        let linked = LinkedModules {
            functions: AST::empty(),
            values: HashMap::new(),
            as_written: Vec::new(),
            orders: KeyOrders::default(),
            sources: Sources::new(&script.path, source),
            imported: ModuleFunctions::new(),
            modules: Vec::new(),
        };
        Self {
            script,
            imports: &script.imports,
            manifest,
            linked,
            compiled: Vec::new(),
            indexes: HashMap::new(),
            chain: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Returns the modules that a file imports, by their aliases. Records problems.
    fn imports_of(
        &mut self,
        from: &str,
        file: &SourceFile,
        source: &str,
        as_written: &AST,
    ) -> HashMap<String, usize> {
        let mut aliases = HashMap::new();
        let (written, wrong) = written_in(as_written, file, source);
        self.problems.extend(wrong);
        for ImportStatement { name, alias, position } in written {
            if self.problems.len() > MAX_PROBLEMS {
                break;
            }
            let problem = |code, what: String| Diagnostic::of(code, file, what).at(source, position);
            if functions::modules().iter().any(|(module, _)| *module == alias) {
                let taken = problem(
                    Code::BadImport,
                    format!("cannot import a module as `{alias}`: the host has a module of this name"),
                );
                self.problems.push(taken.help("choose another name after `as`"));
                continue;
            }
            if aliases.contains_key(&alias) {
                self.problems.push(
                    problem(Code::BadImport, format!("cannot import two modules as `{alias}`"))
                        .help("choose another name for one of them after `as`"),
                );
                continue;
            }
            match self.imports.get(from, &name) {
                Some(Ok(module)) => match self.index_of(module, &problem) {
                    Some(index) => {
                        aliases.insert(alias, index);
                    }
                    None => continue,
                },
                Some(Err(wrong)) if wrong.path.as_os_str().is_empty() => {
                    let diagnostic = problem(wrong.code, wrong.message.clone());
                    self.problems.push(match &wrong.help {
                        Some(help) => diagnostic.help(help),
                        None => diagnostic,
                    });
                }
                Some(Err(wrong)) => {
                    self.problems.push(Diagnostic { id: self.script.id.to_string(), ..wrong.clone() });
                }
                // The path has escapes, so its target was not searched.
                None => self.problems.push(
                    problem(Code::NoModule, format!("invalid module path `{}`", name.escape_debug()))
                        .help("write the path without escapes: `import \"lib/name\" as name;`"),
                ),
            }
        }
        aliases
    }

    /// Returns the functions of compiled modules by their aliases.
    fn functions_of(&self, imported: &HashMap<String, usize>) -> ModuleFunctions {
        let functions = |index: &usize| lint::public_functions(&self.linked.as_written[*index]);
        imported.iter().map(|(alias, index)| (alias.clone(), Some(functions(index)))).collect()
    }

    /// Returns the index of a compiled module. Returns `None` and records the problem if there is none.
    fn index_of(
        &mut self,
        module: &ModuleFile,
        problem: &dyn Fn(Code, String) -> Diagnostic,
    ) -> Option<usize> {
        if let Some(at) = self.chain.iter().position(|key| *key == module.key) {
            let round = [&self.chain[at..], std::slice::from_ref(&module.key)].concat();
            let round: Vec<String> = round.iter().map(|key| format!("`{key}`")).collect();
            let diagnostic = problem(
                Code::ImportCircle,
                format!("cannot import modules in a cycle: {}", round.join(" imports ")),
            );
            self.problems.push(diagnostic.help("move the shared functions to a third module"));
            return None;
        }
        if let Some(known) = self.indexes.get(&module.key) {
            return *known;
        }
        if self.chain.len() >= MAX_CHAIN {
            let deep = problem(
                Code::TooManyModules,
                format!("the chain of imports exceeded its limit of {MAX_CHAIN} modules"),
            );
            self.problems.push(deep.help("import the module directly"));
            return None;
        }
        self.chain.push(module.key.clone());
        let index = self.module(module);
        self.chain.pop();
        self.indexes.insert(module.key.clone(), index);
        index
    }

    /// Compiles a module, after the modules it imports.
    fn module(&mut self, module: &ModuleFile) -> Option<usize> {
        let script = self.script;
        let file = SourceFile::new(script.kind, script.id.clone(), &module.path, module.text.clone());
        if let Err(problem) = check_text(&file) {
            self.problems.push(problem);
            return None;
        }
        let source = module.text.trim_start_matches('\u{feff}');
        // Names are identified by their position, whose column Rhai limits.
        if source.lines().any(|line| line.len() > MAX_LINES) {
            let long = format!("a line exceeded its limit of {MAX_LINES} characters");
            self.problems.push(Diagnostic::of(Code::TooLong, &file, long).help("split it"));
            return None;
        }
        match self.compile(module, &file, source) {
            Ok(index) => index,
            Err(mut problem) => {
                problem.message = rename::as_written(&problem.message);
                self.problems.push(problem);
                None
            }
        }
    }

    fn compile(
        &mut self,
        module: &ModuleFile,
        file: &SourceFile,
        source: &str,
    ) -> Result<Option<usize>, Diagnostic> {
        let parse_problem = |error| diagnostic::of_parse(&file.id, &file.path, source, &error);
        let parsed = ParsedModule::of(source).map_err(parse_problem)?;
        self.problems.extend(parsed.misplaced(file, source));
        self.problems.extend(names::assigned(&parsed.plain, &parsed.constants, file, source));
        self.problems.extend(lint::at_load(&parsed.as_written, file, source));
        self.problems.extend(shadow::of_host(&parsed.as_written, file, source));
        if let Some(manifest) = self.manifest {
            let misused = names::misused(&parsed.plain, manifest, &parsed.constants, file, source);
            let of_script = self.script.path.display();
            self.problems.extend(misused.into_iter().map(|mut problem| {
                problem.help = problem.help.map(|help| help.replace("the file", &of_script.to_string()));
                problem
            }));
        }
        let imported = self.imports_of(&module.key, file, source, &parsed.as_written);
        let functions = self.functions_of(&imported);
        self.problems.extend(lint::failures(file, source, &parsed.as_written, functions));
        if diagnostic::has_errors(&self.problems) {
            return Ok(None);
        }

        // The index is assigned after those of the imported modules.
        let index = self.compiled.len();
        let prefix = rename::prefix(index);
        let aliases = imported.iter().map(|(alias, index)| (alias.clone(), rename::prefix(*index))).collect();
        let renamed = |name: &str| format!("{prefix}{name}");
        let own = Own {
            prefix: &prefix,
            functions: &parsed.functions,
            constants: &parsed.constants.iter().map(|(name, _)| name.clone()).collect(),
            aliases: &aliases,
            is_known: &|name| engine::LANGUAGE.contains(&name) || engine::arities(name).is_some(),
        };
        let mut values: HashMap<String, Dynamic> = parsed
            .constants
            .iter()
            .map(|(name, value)| (renamed(name), self.linked.orders.dynamic_of(value)))
            .collect();
        for (name, _) in &parsed.functions {
            if let Ok(function) = FnPtr::new(renamed(name)) {
                values.entry(renamed(name)).or_insert_with(|| function.into());
            }
        }
        let parameters = parsed.as_written.iter_functions().flat_map(|function| function.params);
        let parameters: HashSet<String> = parameters.map(renamed).collect();
        let plan = own.plan(&parsed.words.lock(), &parsed.as_written);
        let known = imported.values().map(|index| (rename::prefix(*index), self.compiled[*index].clone()));
        let ast = strict(source, plan, &parameters, &values, known).map_err(parse_problem)?;

        let public = public_module(&prefix, &ast, &parsed, &values);
        let closures = ast.iter_functions().map(|function| function.name.to_owned());
        let closures: Vec<String> = closures.filter(|name| name.starts_with("anon$")).collect();
        let place = Source { path: module.path.clone(), text: source.into() };
        self.linked.sources.add(place, closures);
        self.linked.functions.combine(ast);
        self.linked.values.extend(values);
        self.linked.as_written.push(parsed.as_written);
        self.linked.modules.push((prefix, public.clone()));
        self.compiled.push(public);
        Ok(Some(index))
    }
}

/// Builds the module behind `module::`: its public functions and its constants.
fn public_module(
    prefix: &str,
    ast: &AST,
    parsed: &ParsedModule,
    values: &HashMap<String, Dynamic>,
) -> Shared<Module> {
    let mut public = public_functions(prefix, ast);
    let mut shown: BTreeSet<&str> = parsed.constants.iter().map(|(name, _)| name.as_str()).collect();
    for function in ast.iter_fn_def().filter(|function| function.access == FnAccess::Public) {
        let Some(name) = function.name.strip_prefix(prefix) else { continue };
        if let Some((name, _)) = parsed.functions.iter().find(|(known, _)| known == name) {
            shown.insert(name);
        }
    }
    for name in shown {
        if let Some(value) = values.get(&format!("{prefix}{name}")) {
            public.set_var(name, value.clone());
        }
    }
    public.build_index();
    public.into()
}

/// Builds a module of the public functions with this prefix.
fn public_functions(prefix: &str, ast: &AST) -> Module {
    let mut public = Module::new();
    public.set_id(prefix);
    for function in ast.iter_fn_def().filter(|function| function.access == FnAccess::Public) {
        if let Some(name) = function.name.strip_prefix(prefix) {
            public.set_script_fn(ScriptFuncDef { name: name.into(), ..(**function).clone() });
        }
    }
    public
}

/// A parsed module.
struct ParsedModule {
    as_written: AST,
    plain: AST,
    words: tokens::Words,
    constants: Vec<(String, Json)>,
    /// The functions without closures: names and numbers of parameters.
    functions: HashSet<(String, usize)>,
}

impl ParsedModule {
    fn of(source: &str) -> Result<Self, rhai::ParseError> {
        let mut engine = engine::new();
        let words = tokens::note_words(&mut engine);
        let (as_written, plain) = folding::parse(&mut engine, source)?;
        let constants = literal::constants(&plain, &as_written);
        let functions = as_written.iter_functions().filter(|function| !function.name.starts_with("anon$"));
        let functions = functions.map(|function| (function.name.to_owned(), function.params.len())).collect();
        Ok(Self { as_written, plain, words, constants, functions })
    }

    /// Returns the problems of declarations that have no meaning in a module.
    fn misplaced(&self, file: &SourceFile, source: &str) -> Vec<Diagnostic> {
        let problem = |what: String| Diagnostic::of(Code::NotInModule, file, what);
        let mut problems = Vec::new();
        for statement in self.as_written.statements() {
            match statement {
                Stmt::Import(..) | Stmt::Noop(..) => {}
                Stmt::Var(variable, _, position) => {
                    let name = variable.0.name.as_str();
                    if name == "security" || manifest::CONSTANTS.contains(&name) {
                        let diagnostic =
                            problem(format!("`{name}` is not allowed in a module")).at(source, *position);
                        problems.push(
                            diagnostic.help("move it to the importing script, and pass values as arguments"),
                        );
                    } else if !self.constants.iter().any(|(known, _)| known == name) {
                        let diagnostic = problem(format!(
                            "cannot compute `{name}`: the constants of a module are read without running it"
                        ));
                        let diagnostic = diagnostic.at(source, *position);
                        problems
                            .push(diagnostic.help("write a literal value, or a function that returns it"));
                    }
                }
                other => problems.push(
                    problem("statements are not allowed at the top of a module".into())
                        .at(source, other.position())
                        .help(
                            "move the statement into a function; only functions, literal constants and \
                               imports are allowed here",
                        ),
                ),
            }
        }
        for function in self.as_written.iter_functions() {
            if let Some(kind) = function.this_type {
                let diagnostic =
                    problem(format!("cannot export the method `{kind}.{}` from a module", function.name));
                let help = format!("write `fn {}(value)`", function.name);
                problems.push(diagnostic.at_word(source, function.name).help(help));
            }
        }
        problems
    }
}

/// Compiles a module's functions under their prefixed names; every other name must be known.
fn strict(
    source: &str,
    plan: RenamePlan,
    parameters: &HashSet<String>,
    values: &HashMap<String, Dynamic>,
    modules: impl Iterator<Item = (String, Shared<Module>)>,
) -> Result<AST, rhai::ParseError> {
    let mut engine = engine::new();
    tokens::rename_words(&mut engine, plan);
    for (name, module) in modules {
        engine.register_static_module(name, module);
    }
    engine.set_strict_variables(true);
    instrument::keep_unordered(&mut engine);
    let scope = known_to(parameters, values);
    Ok(tokens::compile_with_scope(&engine, &scope, source)?.clone_functions_only())
}

/// An `import` statement.
struct ImportStatement {
    name: String,
    alias: String,
    position: Position,
}

/// Returns the imports at the top of a file, and the problems of others.
fn written_in(as_written: &AST, file: &SourceFile, source: &str) -> (Vec<ImportStatement>, Vec<Diagnostic>) {
    let problem = |what: &str, position| Diagnostic::of(Code::BadImport, file, what).at(source, position);
    let (mut written, mut problems) = (Vec::new(), Vec::new());
    let mut at_top = HashSet::new();
    for statement in as_written.statements() {
        let Stmt::Import(import, position) = statement else { continue };
        if problems.len() >= MAX_PROBLEMS {
            break;
        }
        at_top.insert(*position);
        let (what, alias) = &**import;
        match what {
            _ if alias.name.is_empty() => {
                let diagnostic = problem("missing name of the imported module", *position);
                problems.push(diagnostic.help("write `import \"lib/words\" as words;`"));
            }
            Expr::StringConstant(name, place) => written.push(ImportStatement {
                name: name.to_string(),
                alias: alias.name.to_string(),
                position: *place,
            }),
            other => {
                let diagnostic = problem("cannot import a computed path", other.position());
                problems
                    .push(diagnostic.help("write the path as a literal: `import \"lib/words\" as words;`"));
            }
        }
    }
    as_written.walk(&mut |path: &[ASTNode<'_>]| {
        if let Some(ASTNode::Stmt(Stmt::Import(_, position))) = path.last()
            && !at_top.contains(position)
        {
            let diagnostic = problem("`import` is not allowed within a function", *position);
            problems.push(
                diagnostic.help("move it to the top of the file; a running script cannot read modules"),
            );
        }
        problems.len() < MAX_PROBLEMS
    });
    (written, problems)
}
