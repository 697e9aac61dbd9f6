//! Codes of tests, and of problems at run time.

use super::codes;

codes! {
    /// V701 a test file without a test or a script
    ///
    /// `turn_limit.test.rhai` contains the tests of `turn_limit.rhai` in the same folder: functions without parameters whose
    /// names begin with `test_`. The script or such a function is missing.
    NoTest;

    /// V702 a test with parameters
    ///
    /// `valvehouse test` calls every function whose name begins with `test_`, without arguments. Remove the parameters, or
    /// rename a function that is only a helper.
    TestWithParameters;

    /// V703 a failed test
    ///
    /// An assertion failed, or the test ended with an error. The report has the location in the test file, the compared values,
    /// their difference, and the printed output.
    TestFailed;

    /// V801 a script that failed
    ///
    /// A call ended with an uncaught error, returned an invalid value, or exceeded its budget. The request fails or continues
    /// without the script, depending on `on_error`. Such errors only occur at run time; `valvehouse run` and `valvehouse test`
    /// reproduce them.
    Broke;

    /// V802 background work that failed
    ///
    /// The last call of `tick()`, or of `pipes()` or `tools()` with a `ttl`, ended with an error or returned an invalid list.
    /// Requests are not affected, and the last valid list stays in use. The call is retried, and the problem disappears after a
    /// success. `valvehouse run tick ID --live` runs it now and shows the result.
    ScheduledFailed;
}
