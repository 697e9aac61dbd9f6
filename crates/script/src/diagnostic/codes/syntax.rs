//! Codes of text that does not parse, or whose names are unknown.

use super::codes;

codes! {
    /// V101 syntax error
    ///
    /// The parser found an unexpected character or word, usually because something before it is missing.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.seen = ;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.seen = true;
    /// }
    /// ```
    Syntax;

    /// V102 an unclosed bracket or text
    ///
    /// A bracket or a text is opened and never closed. The reported location is the opening.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     if body.messages.len() > 4 {
    ///         body.long = true;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     if body.messages.len() > 4 {
    ///         body.long = true;
    ///     }
    /// }
    /// ```
    Unclosed;

    /// V104 an unknown variable
    ///
    /// The name is not a parameter of the function, not declared with `let`, and not a literal constant of the file. A hook
    /// receives the parameters that it declares: `fn inlet(body, valves, __user__)`.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.limit = limit;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     let limit = 4;
    ///     body.limit = limit;
    /// }
    /// ```
    UnknownVariable;

    /// V105 a reserved name
    ///
    /// The language or the host reserves this name.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     print(body.model);
    /// }
    ///
    /// fn print(text) {
    ///     log::info(text);
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     note(body.model);
    /// }
    ///
    /// fn note(text) {
    ///     log::info(text);
    /// }
    /// ```
    ReservedName;

    /// V106 an invalid assignment target
    ///
    /// The left side of `=` is not a variable or a part of one, but for example the result of a call.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model.to_upper() = "DEMO";
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.model = "DEMO";
    /// }
    /// ```
    NotAssignable;

    /// V107 an assignment to a constant
    ///
    /// Constants of a file are read once, when it loads. Use `let` for variables, `state` for values of one turn, or `kv` for
    /// permanent values.
    ///
    /// Wrong:
    /// ```rhai
    /// const SEEN = 0;
    ///
    /// fn inlet(body) {
    ///     SEEN = SEEN + 1;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body, state) {
    ///     state.seen = (state.seen ?? 0) + 1;
    /// }
    /// ```
    ConstantWritten;

    /// V108 a duplicate name
    ///
    /// Two functions have the same name and number of parameters, or two parameters or two keys of one map have the same name.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.options = #{ depth: 1, depth: 2 };
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.options = #{ depth: 1, width: 2 };
    /// }
    /// ```
    Twice;

    /// V109 an exceeded parser limit
    ///
    /// An expression is nested too deeply, a text is too long, or a file has more than 500 functions. Split it.
    TooComplex;
}
