//! Codes of files and their ids.

use super::codes;

codes! {
    /// V001 a file that cannot be read
    ///
    /// The host has no permission to read the file or folder, or it is not a regular file: pipes, sockets and devices could
    /// block the reader. Give read permission to the user that runs the host.
    Unreadable;

    /// V002 a script that is too long
    ///
    /// A script has at most 256 KB and 60 000 lines, because longer ones would delay every reload. Split it into modules
    /// (`import "lib/words" as words;`), or move its data to valves or `kv`.
    TooLong;

    /// V003 a file that is not text
    ///
    /// A script must be UTF-8 text. This file contains other bytes: it was saved in another encoding or is not a script. Save
    /// it as UTF-8.
    NoText;

    /// V004 an empty file
    ///
    /// The file is empty. A filter needs at least one hook, a tool a handler.
    ///
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body
    /// }
    /// ```
    Empty;

    /// V005 a name that cannot be an id
    ///
    /// A plugin's id is its file name without `.rhai`. It appears in URLs, settings and commands, and consists of at most 64
    /// characters `a`-`z`, `0`-`9`, `_` and `-`. Rename the file.
    BadId;

    /// V006 two files with one id
    ///
    /// Two files in the plugin folders have the same name, and only one of them is used. Rename one; the data stored for the id
    /// (valves, switches, `kv`) stays with the file that keeps the name. No file can have the name of a tool of the host that
    /// has grants, such as `file_read`.
    SameId;

    /// V007 a guard with a missing file
    ///
    /// A filter with `security: true` was deleted or renamed. Its requests are rejected until the file is restored or an
    /// operator runs `valvehouse confirm ID`.
    GuardGone;

    /// V008 a change that weakens a guard
    ///
    /// The new version of a guard's file, or the settings, would remove protection: a hook, `security: true`, its scope
    /// (`global`, `toggle`, `enabled`), `hold`, its position in the chain, or its end. The last good version keeps running;
    /// without one, requests are rejected. If the change is intended, confirm it: `valvehouse confirm ID`, or the button on the
    /// page.
    GuardWeakened;

    /// V009 an invalid `security` key
    ///
    /// Text in the file looks like `security: true` but is not valid, or a constant is named `security`. The file is treated as
    /// a guard that does not load: requests are rejected with 503 until it is fixed.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// Security: true
    /// */
    /// fn inlet(body) {
    ///     if body.messages.len() > 40 {
    ///         deny("too long");
    ///     }
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// security: true
    /// */
    /// fn inlet(body) {
    ///     if body.messages.len() > 40 {
    ///         deny("too long");
    ///     }
    ///     body
    /// }
    /// ```
    UnclearGuard;

    /// V010 a version that crashed the process
    ///
    /// The host crashed while it ran or loaded this version of the plugin, so the version is quarantined. A guard then rejects
    /// requests with 503, another filter is skipped, and if an older version loaded before, that one runs. Saving a different
    /// text, `valvehouse release ID` or the button on the page releases it. `check` reports the same for a file that crashes
    /// the process that loads it. An internal error of the host while a file is loaded is caught and reported with this code
    /// too.
    ///
    /// A version is quarantined if
    ///
    /// - the process ended by a fault on the thread that ran it (SIGSEGV, SIGBUS, SIGILL, SIGFPE or SIGABRT, as after a stack
    ///   overflow or when memory ran out),
    /// - the process was killed after the file had been loading for 100 ms or more, or
    /// - the process was killed for the second time within 24 hours while the version was stuck in a single function for 500 ms
    ///   or more.
    ///
    /// Plugins that were running when a healthy host was killed are not quarantined. The list is `.valvehouse/quarantine.json`
    /// in the project.
    Quarantined;

    /// V011 a new plugin with the id of a removed one
    ///
    /// A plugin with this id was removed, and the file that has the id now has a different text. The valves, switches, grants
    /// by command and `kv` entries of the removed plugin are set aside, and the new plugin starts without data. If it is the
    /// same plugin, run `valvehouse adopt ID`, or press the button on the page; to delete the data, run `valvehouse adopt ID
    /// --drop`. See [Operating a host](operating.md) for the rules.
    SetAside;
}
