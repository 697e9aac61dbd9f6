//! Programs generated from a grammar of the scripting language: mostly valid ones that call the host's
//! functions with hostile values. The same seed gives the same programs.
//!
//! A few run by default; `tests/fuzz scripts [SECONDS [SEED]]` runs programs for the given seconds of
//! processor time.

use super::corpus::values::{hostile, is_unreachable};
use super::corpus::{Case, Position, Report, run};
use super::host::Limits;
use std::time::Duration;
use valvehouse_script_std::reference::{Registration, registrations};

/// The number of programs per round.
const ROUND: usize = 64;
/// The number of failures after which the run stops.
const ENOUGH: usize = 20;
/// The maximum number of statements of a program, and the maximum depth of its statements and expressions.
const STATEMENTS: u64 = 14;
const DEPTH: u32 = 3;

/// A random number generator (SplitMix64) with the same sequence on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns `true` with the given probability in percent.
    fn chance(&mut self, of_hundred: u64) -> bool {
        self.below(100) < of_hundred
    }

    fn one_of<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[usize::try_from(self.below(values.len() as u64)).unwrap_or(0)]
    }
}

/// Generates one program.
struct Program<'a> {
    numbers: Numbers,
    functions: &'a [Registration],
    /// The variables in scope.
    variables: Vec<String>,
    made: usize,
    depth: u32,
    /// The number of closures, which must stay below Rhai's limit per file.
    closures: usize,
}

const KINDS: &[&str] = &[
    "str", "INT", "FLOAT", "Array", "Map", "Blob", "FnPtr", "Dynamic", "AnyArray", "AnyMap", "bool", "char",
];

impl<'a> Program<'a> {
    fn new(seed: u64, functions: &'a [Registration]) -> Self {
        let numbers = Numbers(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        Self { numbers, functions, variables: Vec::new(), made: 0, depth: 0, closures: 0 }
    }

    fn case(mut self, name: String) -> Case {
        let position = *self.numbers.one_of(&Position::ALL);
        let mut code = String::new();
        for _ in 0..3 {
            let kind = *self.numbers.one_of(KINDS);
            let value = self.hostile(kind);
            code.push_str(&self.bind(&value));
        }
        for _ in 0..3 + self.numbers.below(STATEMENTS) {
            code.push_str(&self.statement());
        }
        if !matches!(position, Position::Inlet | Position::Outlet) {
            // Hooks without messages use other lists.
            code = code.replace("body.messages", "body.l").replace("body.texts", "body.l");
        }
        Case { family: name, position, code }
    }

    fn hostile(&mut self, kind: &str) -> String {
        let value = hostile(kind).map_or("()", |values| *self.numbers.one_of(values));
        value.to_owned()
    }

    fn bind(&mut self, value: &str) -> String {
        let name = format!("v{}", self.made);
        self.made += 1;
        let statement = format!("let {name} = {value};\n    ");
        self.variables.push(name);
        statement
    }

    fn variable(&mut self) -> String {
        if self.variables.is_empty() { "1".to_owned() } else { self.numbers.one_of(&self.variables).clone() }
    }

    /// Returns a statement; most failures are caught so that the program continues.
    fn statement(&mut self) -> String {
        let scope = self.variables.len();
        match self.numbers.below(20) {
            0..=4 => {
                let value = self.call();
                self.caught_binding(&value)
            }
            5 | 6 => {
                let value = self.expression("Dynamic");
                self.caught_binding(&value)
            }
            7 => {
                let (variable, operator) = (self.variable(), *self.numbers.one_of(&["+=", "-=", "=", "*="]));
                let value = self.expression("Dynamic");
                caught(&format!("{variable} {operator} {value};"))
            }
            8 => {
                let (variable, index) = (self.variable(), self.expression("INT"));
                let value = self.expression("Dynamic");
                caught(&format!("{variable}[{index}] = {value};"))
            }
            9 => {
                let (variable, value) = (self.variable(), self.expression("Dynamic"));
                let word = *self.numbers.one_of(&["x", "f", "text", "content", "messages"]);
                caught(&format!("{variable}.{word} = {value};"))
            }
            // Cyclic values.
            10 | 11 => {
                let (holder, held) = (self.variable(), self.variable());
                self.closures += 1;
                let put = *self.numbers.one_of(&[
                    "HOLDER.f = || HELD;",
                    "let f = || HELD; HOLDER.push(f);",
                    "HOLDER = || HELD;",
                ]);
                caught(&put.replace("HOLDER", &holder).replace("HELD", &held))
            }
            12 | 13 => {
                let over = if self.numbers.chance(50) {
                    (*self.numbers.one_of(&[
                        "0..9",
                        "0..5_000",
                        "0..9223372036854775807",
                        "range(0, 90_000, 7)",
                    ]))
                    .to_owned()
                } else {
                    self.variable()
                };
                let name = format!("v{}", self.made);
                self.made += 1;
                self.variables.push(name.clone());
                let body = self.block();
                self.variables.truncate(scope);
                caught(&format!("for {name} in {over} {{ {body} }}"))
            }
            14 => {
                let condition = self.expression("bool");
                let (yes, no) = (self.block(), self.block());
                caught(&format!("if {condition} {{ {yes} }} else {{ {no} }}"))
            }
            15 => {
                let (value, yes, no) = (self.variable(), self.block(), self.block());
                let label = *self.numbers.one_of(&["1", "\"a\"", "0..9", "true", "()"]);
                caught(&format!("switch {value} {{ {label} => {{ {yes} }} _ => {{ {no} }} }}"))
            }
            16 => {
                let (body, value) = (self.block(), self.expression("Dynamic"));
                format!("try {{ {body} throw {value}; }} catch (e) {{ `${{e}}`; e.message; }}\n    ")
            }
            17 => {
                let value = self.expression("Dynamic");
                caught(&format!("body.x = {value}; body.copy();"))
            }
            18 if self.numbers.chance(30) => {
                let (body, value) = (self.block(), self.expression("Dynamic"));
                let end = *self.numbers.one_of(&[
                    "throw VALUE;",
                    "return VALUE;",
                    "loop { VALUE; }",
                    "deny(VALUE);",
                    "skip(VALUE);",
                ]);
                format!("if body.len() >= 0 {{ {body} {} }}\n    ", end.replace("VALUE", &value))
            }
            _ => {
                let value = self.variable();
                let write = *self.numbers.one_of(&[
                    "`${V}`;",
                    "print(V);",
                    "V.to_string();",
                    "V == V;",
                    "[V, V].sort();",
                    "V in [V];",
                    "V.to_json();",
                    "debug(V);",
                ]);
                caught(&write.replace('V', &value))
            }
        }
    }

    fn caught_binding(&mut self, value: &str) -> String {
        let name = format!("v{}", self.made);
        self.made += 1;
        let statement = format!("let {name} = (); try {{ {name} = {value}; }} catch {{ }}\n    ");
        self.variables.push(name);
        statement
    }

    fn block(&mut self) -> String {
        if self.depth >= DEPTH {
            return String::new();
        }
        self.depth += 1;
        let scope = self.variables.len();
        let statements: String = (0..=self.numbers.below(2)).map(|_| self.statement()).collect();
        self.variables.truncate(scope);
        self.depth -= 1;
        statements
    }

    /// Returns an expression, which is mostly of the given type.
    fn expression(&mut self, kind: &str) -> String {
        if self.depth >= DEPTH {
            return if self.numbers.chance(60) { self.variable() } else { self.hostile(kind) };
        }
        self.depth += 1;
        let made = match (self.numbers.below(12), kind) {
            (0..=3, _) => self.variable(),
            (4, "str" | "Dynamic") => {
                let (a, b) = (self.expression("Dynamic"), self.expression("Dynamic"));
                if self.numbers.chance(50) && !a.contains('`') && !b.contains('`') {
                    format!("`${{{a}}}-${{{b}}}`")
                } else {
                    format!("({a} + {b})")
                }
            }
            (5, "Array" | "AnyArray" | "Dynamic") => {
                let (a, b) = (self.expression("Dynamic"), self.expression("Dynamic"));
                format!("[{a}, {b}, {a}]")
            }
            (5, "Map" | "AnyMap") => {
                let (a, b) = (self.expression("Dynamic"), self.expression("Dynamic"));
                format!("#{{ x: {a}, message: {b} }}")
            }
            (6, "FnPtr" | "Dynamic") if self.closures < 40 => {
                self.closures += 1;
                let body = self.expression("Dynamic");
                let parameters = *self.numbers.one_of(&["|a|", "|a, b|", "||", "|a, b, c|"]);
                format!("{parameters} {{ {body} }}")
            }
            (7, "bool" | "Dynamic") => {
                let operator = *self.numbers.one_of(&["==", "!=", "<", ">=", "in", "&&", "??"]);
                let (a, b) = (self.expression("Dynamic"), self.expression("Dynamic"));
                format!("({a} {operator} {b})")
            }
            (8, _) => self.call(),
            (9, "Dynamic") => {
                let (a, index) = (self.variable(), self.expression("INT"));
                format!("{a}[{index}]")
            }
            _ => self.hostile(kind),
        };
        self.depth -= 1;
        made
    }

    /// Returns a call of a registered function; most arguments have the right types.
    fn call(&mut self) -> String {
        let function = self.numbers.one_of(self.functions).clone();
        self.depth += 1;
        let arguments: Vec<String> = function
            .params
            .iter()
            .map(|kind| {
                let kind = if self.numbers.chance(10) { "Dynamic" } else { kind };
                if self.numbers.chance(40) { self.expression(kind) } else { self.hostile(kind) }
            })
            .collect();
        self.depth -= 1;
        self.closures += arguments.iter().filter(|argument| argument.starts_with('|')).count();
        let Registration { module, name, .. } = &function;
        match arguments.split_first() {
            _ if !module.is_empty() => format!("{module}::{name}({})", arguments.join(", ")),
            Some((first, others))
                if self.numbers.chance(50) && !first.starts_with(['|', '-']) && !first.contains("..") =>
            {
                format!("({first}).{name}({})", others.join(", "))
            }
            _ => format!("{name}({})", arguments.join(", ")),
        }
    }
}

fn caught(statement: &str) -> String {
    format!("try {{ {statement} }} catch {{ }}\n    ")
}

/// Returns the functions that a program may call by name.
fn callable() -> Vec<Registration> {
    let mut all = registrations();
    all.retain(|one| {
        let is_word = one.name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let is_off = ["eval", "sleep", "Fn", "call", "curry"].contains(&&*one.name);
        is_word && !is_off && !one.params.iter().any(|kind| is_unreachable(kind))
    });
    all
}

fn programs(seed: u64, from: usize, functions: &[Registration]) -> Vec<Case> {
    let one = |number: usize| {
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        Program::new(seed, functions).case(format!("program {number}"))
    };
    (from..from + ROUND).map(one).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_programs_do_not_harm_the_host() {
    let functions = callable();
    let seed = number("VALVEHOUSE_FUZZ_SEED").unwrap_or(19);
    let seconds = number("VALVEHOUSE_FUZZ_SECONDS").unwrap_or(0);
    let limits = Limits::beside_harmless();
    let (mut report, mut made) = (Report::default(), 0);
    // At least one round runs.
    while report.wrong.len() < ENOUGH && (made == 0 || report.processor < Duration::from_secs(seconds)) {
        let cases = programs(seed, made, &functions);
        let known = report.wrong.len();
        report.add(run(&cases, &limits));
        made += cases.len();
        report.wrong[known..].iter().for_each(|wrong| println!("{wrong}"));
        if seconds > 0 {
            let Report { processor, answers, wrong, .. } = &report;
            println!(
                "{made} programs, {processor:?} of processor time, {} wrong, answers {answers:?}",
                wrong.len()
            );
        }
    }
    println!("seed {seed}, not loaded: {}; {}", report.not_loaded.len(), report.summary(made));
    assert!(
        report.not_loaded.len() * 4 < made,
        "{} of {made} are not programs:\n{}",
        report.not_loaded.len(),
        report.not_loaded[0]
    );
    assert!(report.wrong.is_empty(), "seed {seed}, {made} programs:\n{}", report.wrong.join("\n"));
}

#[test]
fn a_seed_generates_the_same_programs() {
    let functions = callable();
    let texts = |seed| programs(seed, 0, &functions).iter().map(|case| case.code.clone()).collect::<Vec<_>>();
    assert_eq!(texts(3), texts(3));
    assert_ne!(texts(3), texts(4));
}
