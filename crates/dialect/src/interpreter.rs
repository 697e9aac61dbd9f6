//! Calls functions of one script with cached function lookups and a reusable scope.
//!
//! For every function that a script calls, Rhai searches all modules for one with matching argument types.
//! `Engine::call_fn` repeats this for each call and also searches the called function; for a hook of a line or two,
//! this is most of the work.

use super::budget;
use super::syntax::statements_of;
use parking_lot::Mutex;
use rhai::{
    AST, Caches, Dynamic, Engine, EvalAltResult, EvalContext, FnArgsVec, GlobalRuntimeState, Scope,
    ScriptFuncDef, Shared, Stmt,
};
use std::sync::Arc;

type Answer = Result<Dynamic, Box<EvalAltResult>>;

/// The arguments of a call; optimized for a few.
pub type Args = FnArgsVec<Dynamic>;

/// The maximum depth of nested calls in a script.
const LEVELS: usize = 32;

/// The limit for Rhai, which counts two more levels for a function called from here.
pub(crate) const LEVELS_OF_RHAI: usize = LEVELS + OWN_LEVELS;
const OWN_LEVELS: usize = 2;

/// The maximum number of seats that are kept.
const KEPT: usize = 16;
/// The maximum number of cached lookups per seat, because a script may create any number of names.
const FINDINGS: usize = 1_024;

/// The seats of a script's functions: for each function, as many as there were concurrent calls. Functions never
/// change: another text or other valves create another script.
#[derive(Default)]
pub struct Interpreter {
    #[allow(clippy::vec_box)] // a seat is large, and moves at every call
    seats: Mutex<Vec<Box<Seat>>>,
    /// All functions that have been called.
    functions: Mutex<Vec<Arc<Function>>>,
}

impl Interpreter {
    /// Calls a function of the script.
    ///
    /// # Errors
    /// Returns the error of the function, and an error if the script has no such function.
    pub fn call(&self, engine: &Engine, ast: &AST, function: &str, args: Args) -> Answer {
        let kept = self.kept(function, args.len());
        let new = || Some(Seat::of(self.function(ast, function, args.len())?, engine, ast));
        let Some(mut seat) = kept.or_else(new) else {
            return unknown(engine, ast, function, args);
        };
        let answer = seat.call(engine, args);
        if seat.is_left_as_found() {
            let mut kept = self.seats.lock();
            if kept.len() < KEPT {
                kept.push(seat);
            }
        }
        answer
    }

    fn kept(&self, function: &str, arity: usize) -> Option<Box<Seat>> {
        let mut kept = self.seats.lock();
        let place = kept.iter().rposition(|seat| seat.function.is(function, arity))?;
        Some(kept.swap_remove(place))
    }

    fn function(&self, ast: &AST, name: &str, arity: usize) -> Option<Arc<Function>> {
        let mut known = self.functions.lock();
        if let Some(known) = known.iter().find(|function| function.is(name, arity)) {
            return Some(known.clone());
        }
        let is_meant = |function: &&Shared<ScriptFuncDef>| {
            function.name == name && function.params.len() == arity && function.this_type.is_none()
        };
        let definition = ast.iter_fn_def().find(is_meant)?.clone();
        let function = Arc::new(Function { body: statements_of(&definition), definition });
        known.push(function.clone());
        Some(function)
    }
}

/// A function and its definition.
struct Function {
    definition: Shared<ScriptFuncDef>,
    body: Vec<Stmt>,
}

impl Function {
    fn is(&self, name: &str, arity: usize) -> bool {
        self.definition.name == name && self.definition.params.len() == arity
    }
}

/// The state for calls of one function, used by one caller at a time.
struct Seat {
    function: Arc<Function>,
    /// The lookups cached by earlier calls.
    caches: Caches,
    global: GlobalRuntimeState,
    /// Its parameters, which have no value between calls.
    scope: Scope<'static>,
}

impl Seat {
    fn of(function: Arc<Function>, engine: &Engine, ast: &AST) -> Box<Self> {
        let mut global = engine.new_global_runtime_state();
        global.lib.push(ast.shared_lib().clone());
        global.source = ast.shared_lib().id().map(Into::into);
        let mut scope = Scope::new();
        for name in &function.definition.params {
            scope.push_dynamic(name.as_str(), Dynamic::UNIT);
        }
        Box::new(Self { function, caches: Caches::new(), global, scope })
    }

    fn call(&mut self, engine: &Engine, mut args: Args) -> Answer {
        budget::called()?;
        self.set(&mut args);
        // The scope level of a function: below all its calls and above its blocks.
        (self.global.level, self.global.scope_level) = (OWN_LEVELS, 1);
        self.global.always_search_scope = false;
        #[allow(deprecated)] // volatile, and the version of Rhai is pinned
        let answer = engine.eval_statements_raw(
            &mut self.global,
            &mut self.caches,
            &mut self.scope,
            &self.function.body,
        );
        self.scope.rewind(self.function.definition.params.len());
        self.set(&mut []);
        answer
    }

    /// Sets the values of the parameters; missing ones are `()`.
    fn set(&mut self, values: &mut [Dynamic]) {
        for (index, name) in self.function.definition.params.iter().enumerate() {
            if let Some(place) = self.scope.get_mut(name) {
                *place = values.get_mut(index).map_or(Dynamic::UNIT, std::mem::take);
            }
        }
    }

    /// Returns `true` if a later call can reuse the state: only cached lookups remain.
    fn is_left_as_found(&mut self) -> bool {
        self.caches.rewind_fn_resolution_caches(1);
        let findings = self.caches.fn_resolution_cache_mut().dict.len();
        findings <= FINDINGS && self.global.lib.len() == 1 && self.global.num_imports() == 0
    }
}

/// Returns Rhai's own error for an unknown function.
fn unknown(engine: &Engine, ast: &AST, function: &str, mut args: Args) -> Answer {
    let (mut global, mut caches) = (engine.new_global_runtime_state(), Caches::new());
    global.lib.push(ast.shared_lib().clone());
    let mut args: FnArgsVec<&mut Dynamic> = args.iter_mut().collect();
    EvalContext::new(engine, &mut global, &mut caches, &mut Scope::new(), None)
        .call_fn_raw(function, false, false, &mut args)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language;

    #[test]
    fn dynamic_function_names_are_not_cached() {
        let engine = language::engine([]);
        let text = "fn few() { 1 + 1 } fn many() { for i in 0..5_000 { for twice in 0..2 { try { Fn(`f${i}`).call(); } catch { } } } }";
        let ast = engine.compile(text).unwrap();
        let interpreter = Interpreter::default();
        assert!(interpreter.call(&engine, &ast, "many", Args::new()).is_ok());
        assert_eq!(interpreter.seats.lock().len(), 0);
        assert!(interpreter.call(&engine, &ast, "few", Args::new()).is_ok());
        assert_eq!(interpreter.seats.lock().len(), 1);
    }

    fn call(interpreter: &Interpreter, code: &str, args: Vec<Dynamic>) -> Answer {
        let engine = language::engine([]);
        interpreter.call(&engine, &engine.compile(code).unwrap(), "f", args.into())
    }

    #[test]
    fn a_call_leaves_no_state_for_the_next_one() {
        let engine = language::engine([]);
        let text =
            "fn f(a, b) { let c = [a]; let a = || c; if b > 1 { f(a, b - 1) } if b == 0 { throw a } a }";
        let ast = engine.compile(text).unwrap();
        let interpreter = Interpreter::default();
        for b in [0, 1, 5, 0, 100, 2] {
            let b: rhai::INT = b;
            let answer =
                interpreter.call(&engine, &ast, "f", vec![vec![Dynamic::ONE].into(), b.into()].into());
            assert_eq!(answer.is_ok(), (1..10).contains(&b), "{b}: {answer:?}");
            let seats = interpreter.seats.lock();
            let [seat] = seats.as_slice() else { panic!("{} seats", seats.len()) };
            let left: Vec<_> = seat.scope.iter().collect();
            assert!(left.len() == 2 && left.iter().all(|(_, _, value)| value.is_unit()), "{left:?}");
        }
    }

    #[test]
    fn function_calls_nest_as_deep_as_in_rhai() {
        let code = "fn f(n) { if n > 0 { f(n - 1) } }";
        let mut engine = language::engine([]);
        let ast = engine.compile(code).unwrap();
        let ours = (0..100).take_while(|n| call(&Interpreter::default(), code, vec![(*n).into()]).is_ok());
        let ours = ours.count();
        engine.set_max_call_levels(LEVELS);
        let options = || rhai::CallFnOptions::new().eval_ast(false);
        let rhais = (0..100_i64).take_while(|n| {
            engine.call_fn_with_options::<()>(options(), &mut Scope::new(), &ast, "f", (*n,)).is_ok()
        });
        assert_eq!(ours, rhais.count());
    }

    #[test]
    fn cached_functions_are_looked_up_per_argument_types() {
        let (engine, interpreter) = (language::engine([]), Interpreter::default());
        let ast = engine.compile("fn f(a, b) { `${a + b}/${a.len}` }\nfn g(a) { a.len() }").unwrap();
        for _ in 0..4 {
            for (a, b, sum) in [("x", Dynamic::from(1_i64), "x1/1"), ("y", Dynamic::from(true), "ytrue/1")] {
                let answer = interpreter.call(&engine, &ast, "f", vec![a.into(), b].into()).unwrap();
                assert_eq!(answer.into_string().unwrap(), sum);
            }
            let array: rhai::Array = vec![Dynamic::UNIT; 3];
            assert_eq!(
                interpreter.call(&engine, &ast, "g", vec![array.into()].into()).unwrap().as_int(),
                Ok(3)
            );
            assert_eq!(
                interpreter.call(&engine, &ast, "g", vec!["ab".into()].into()).unwrap().as_int(),
                Ok(2)
            );
            assert!(interpreter.call(&engine, &ast, "g", vec![true.into()].into()).is_err());
        }
    }

    #[test]
    fn an_exceeded_limit_has_the_position_in_the_called_function() {
        let code = "fn f() {\n let a = 1;\n loop {\n a += 1;\n } }\n fn g() { loop { } }";
        let mut engine = language::engine([]);
        engine.set_max_operations(1_000);
        for (code, line) in [(code, 4), ("fn f() {\n\n g(); }\n fn g() { loop { let b = 2; } }", 3)] {
            let ast = engine.compile(code).unwrap();
            let error = Interpreter::default().call(&engine, &ast, "f", Args::new()).unwrap_err();
            assert_eq!(error.position().line(), Some(line), "{error:?}");
        }
    }

    #[test]
    fn an_error_is_attributed_to_the_function_that_raised_it() {
        let error = call(&Interpreter::default(), "fn f() { nothing() }", Vec::new()).unwrap_err();
        assert!(matches!(*error, EvalAltResult::ErrorFunctionNotFound(..)), "{error:?}");
        let error =
            call(&Interpreter::default(), "fn f() { g() } fn g() { nothing() }", Vec::new()).unwrap_err();
        assert!(matches!(&*error, EvalAltResult::ErrorInFunctionCall(name, ..) if name == "g"), "{error:?}");
    }
}
