//! Calls functions of one script, each call with what Rhai found out in those before.
//!
//! For every function a script calls, Rhai looks through all modules until it has one for the types
//! of the arguments. `Engine::call_fn` begins with that anew each time; for a hook of a line or two
//! it is most of the work.

use parking_lot::Mutex;
use rhai::{AST, Caches, Dynamic, Engine, EvalAltResult, EvalContext, FnArgsVec, Scope};

type Answer = Result<Dynamic, Box<EvalAltResult>>;

/// Calls within calls that a script may make.
const LEVELS: usize = 32;

/// Rhai counts two more for a function called from here.
pub(super) const LEVELS_OF_RHAI: usize = LEVELS + 2;

/// Calls at a time whose findings are kept.
const KEPT: usize = 16;
/// Findings that are kept of one: a script that makes up names finds out about each of them.
const FINDINGS: usize = 1_024;

/// What was found out, as many times as the script was ever called at a time. Functions never change
/// under it: another text or another valve makes another script.
#[derive(Default)]
pub(super) struct Interpreter(Mutex<Vec<Caches>>);

impl Interpreter {
    pub(super) fn call(&self, engine: &Engine, ast: &AST, function: &str, mut args: Vec<Dynamic>) -> Answer {
        let kept = self.0.lock().pop();
        let mut caches = kept.unwrap_or_default();
        let mut global = engine.new_global_runtime_state();
        global.lib.push(ast.shared_lib().clone());
        let mut scope = Scope::new();
        let mut args: FnArgsVec<&mut Dynamic> = args.iter_mut().collect();
        let answer = EvalContext::new(engine, &mut global, &mut caches, &mut scope, None)
            .call_fn_raw(function, false, false, &mut args);
        caches.rewind_fn_resolution_caches(1);
        if caches.fn_resolution_cache_mut().dict.len() <= FINDINGS {
            let mut kept = self.0.lock();
            if kept.len() < KEPT {
                kept.push(caches);
            }
        }
        answer.or_else(|error| without_own_frame(function, *error))
    }
}

/// That the function itself was called says nothing.
fn without_own_frame(function: &str, error: EvalAltResult) -> Answer {
    match error {
        EvalAltResult::ErrorInFunctionCall(name, _, inner, _) if name == function => Err(inner),
        EvalAltResult::Exit(value, _) => Ok(value),
        error => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::engine;

    #[test]
    fn findings_about_names_that_a_script_makes_up_are_not_kept() {
        let engine = engine::new();
        let text = "fn few() { 1 + 1 } fn many() { for i in 0..5_000 { for twice in 0..2 { try { Fn(`f${i}`).call(); } catch { } } } }";
        let ast = engine.compile(text).unwrap();
        let interpreter = Interpreter::default();
        assert!(interpreter.call(&engine, &ast, "many", Vec::new()).is_ok());
        assert_eq!(interpreter.0.lock().len(), 0);
        assert!(interpreter.call(&engine, &ast, "few", Vec::new()).is_ok());
        assert_eq!(interpreter.0.lock().len(), 1);
    }

    fn call(interpreter: &Interpreter, code: &str, args: Vec<Dynamic>) -> Answer {
        let engine = engine::new();
        interpreter.call(&engine, &engine.compile(code).unwrap(), "f", args)
    }

    #[test]
    fn functions_may_call_one_another_as_deep_as_rhai_would_let_them() {
        let code = "fn f(n) { if n > 0 { f(n - 1) } }";
        let mut engine = engine::new();
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
    fn what_was_found_for_some_types_is_not_taken_for_others() {
        let (engine, interpreter) = (engine::new(), Interpreter::default());
        let ast = engine.compile("fn f(a, b) { `${a + b}/${a.len}` }\nfn g(a) { a.len() }").unwrap();
        for _ in 0..4 {
            for (a, b, sum) in [("x", Dynamic::from(1_i64), "x1/1"), ("y", Dynamic::from(true), "ytrue/1")] {
                let answer = interpreter.call(&engine, &ast, "f", vec![a.into(), b]).unwrap();
                assert_eq!(answer.into_string().unwrap(), sum);
            }
            let array: rhai::Array = vec![Dynamic::UNIT; 3];
            assert_eq!(interpreter.call(&engine, &ast, "g", vec![array.into()]).unwrap().as_int(), Ok(3));
            assert_eq!(interpreter.call(&engine, &ast, "g", vec!["ab".into()]).unwrap().as_int(), Ok(2));
            assert!(interpreter.call(&engine, &ast, "g", vec![true.into()]).is_err());
        }
    }

    #[test]
    fn a_mistake_is_told_as_one_of_the_function_itself() {
        let error = call(&Interpreter::default(), "fn f() { nothing() }", Vec::new()).unwrap_err();
        assert!(matches!(*error, EvalAltResult::ErrorFunctionNotFound(..)), "{error:?}");
        let error =
            call(&Interpreter::default(), "fn f() { g() } fn g() { nothing() }", Vec::new()).unwrap_err();
        assert!(matches!(&*error, EvalAltResult::ErrorInFunctionCall(name, ..) if name == "g"), "{error:?}");
    }
}
