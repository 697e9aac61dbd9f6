//! Codes of imported modules.

use super::codes;

codes! {
    /// V401 a missing module
    ///
    /// `import "lib/words" as words;` reads `lib/words.rhai`, first from the folder of the script, then from the top of the
    /// plugin folder. Only files called `_name.rhai` and files in a folder `lib` can be imported.
    ///
    /// Wrong:
    /// ```rhai
    /// import "lib/wrods" as words;
    ///
    /// fn inlet(body) {
    ///     body.model = words::shout(body.model);
    /// }
    /// // file: lib/words.rhai
    /// fn shout(text) {
    ///     text + "!"
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// import "lib/words" as words;
    ///
    /// fn inlet(body) {
    ///     body.model = words::shout(body.model);
    /// }
    /// // file: lib/words.rhai
    /// fn shout(text) {
    ///     text + "!"
    /// }
    /// ```
    NoModule;

    /// V402 circular imports
    ///
    /// A module's imports are read before it. Move the shared functions to a third module.
    ///
    /// Wrong:
    /// ```rhai
    /// import "lib/a" as a;
    ///
    /// fn inlet(body) {
    ///     body.n = a::n();
    /// }
    /// // file: lib/a.rhai
    /// import "lib/b" as b;
    ///
    /// fn n() {
    ///     b::n()
    /// }
    /// // file: lib/b.rhai
    /// import "lib/a" as a;
    ///
    /// fn n() {
    ///     a::n()
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// import "lib/a" as a;
    ///
    /// fn inlet(body) {
    ///     body.n = a::n();
    /// }
    /// // file: lib/a.rhai
    /// import "lib/b" as b;
    ///
    /// fn n() {
    ///     b::n()
    /// }
    /// // file: lib/b.rhai
    /// fn n() {
    ///     1
    /// }
    /// ```
    ImportCircle;

    /// V403 too many modules
    ///
    /// A script imports at most 32 modules, eight levels deep, with 512 KB in total.
    TooManyModules;

    /// V404 an invalid import
    ///
    /// Imports must be at the top of a file, with a literal module name and an alias, because modules are not read at run time.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     import "lib/words" as words;
    ///     body.model = words::shout(body.model);
    /// }
    /// // file: lib/words.rhai
    /// fn shout(text) {
    ///     text + "!"
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// import "lib/words" as words;
    ///
    /// fn inlet(body) {
    ///     body.model = words::shout(body.model);
    /// }
    /// // file: lib/words.rhai
    /// fn shout(text) {
    ///     text + "!"
    /// }
    /// ```
    BadImport;

    /// V405 an invalid item in a module
    ///
    /// A module contains functions, literal constants and imports, and no other statements. Valves and other declarations of a
    /// plugin belong in the importing script.
    ///
    /// Wrong:
    /// ```rhai
    /// import "lib/words" as words;
    ///
    /// fn inlet(body) {
    ///     body.model = words::shout(body.model);
    /// }
    /// // file: lib/words.rhai
    /// const Valves = #{ mark: "!" };
    ///
    /// fn shout(text) {
    ///     text + Valves.mark
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// import "lib/words" as words;
    ///
    /// fn inlet(body) {
    ///     body.model = words::shout(body.model, "!");
    /// }
    /// // file: lib/words.rhai
    /// fn shout(text, mark) {
    ///     text + mark
    /// }
    /// ```
    NotInModule;
}
