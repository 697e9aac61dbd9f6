//! Codes of grants and capabilities.

use super::codes;

codes! {
    /// V301 an undeclared capability
    ///
    /// Capabilities are declared in the opening comment, so that operators see them before the script runs.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     kv::incr("turns");
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// requirements: kv
    /// */
    /// fn inlet(body) {
    ///     kv::incr("turns");
    ///     body
    /// }
    /// ```
    NotDeclared;

    /// V302 a capability without a grant
    ///
    /// Operators grant files, programs, environment variables and undeclared hosts. The help has the command.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// requirements: http
    /// */
    /// fn inlet(body) {
    ///     body.weather = http::get("https://api.example.com/weather").text;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// requirements: http
    /// allow_hosts: api.example.com
    /// */
    /// fn inlet(body) {
    ///     body.weather = http::get("https://api.example.com/weather").text;
    /// }
    /// ```
    NotGranted;

    /// V303 an invalid host name
    ///
    /// `allow_hosts` lists host names, `*.example.org` for all subdomains, or `valve:NAME` for the host in a valve, at most 256
    /// of them.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// requirements: http
    /// allow_hosts: valve:server
    /// */
    /// fn inlet(body) {
    ///     body.page = http::get("https://example.com/").text;
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// requirements: http
    /// allow_hosts: example.com
    /// */
    /// fn inlet(body) {
    ///     body.page = http::get("https://example.com/").text;
    /// }
    /// ```
    BadHost;

}
