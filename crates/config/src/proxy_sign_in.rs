//! The sign-in of operators at a proxy in front of the host.

use crate::network::Network;
use crate::operator_role::OperatorRole;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A proxy that signs operators in, and the roles of those whom it names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ProxySignIn {
    /// The addresses from which the proxy connects. The proxy must set or remove both headers in every request that it
    /// passes on: whoever can send requests from these addresses can be any operator. Requests from other addresses are
    /// as without the headers. Empty switches this sign-in off.
    #[schemars(extend("x-form" = "list of addresses and networks", "default" = [], "examples" = [["127.0.0.1", "10.0.0.7"]]))]
    pub proxies: Vec<Network>,
    /// The header with the operator's name. oauth2-proxy also sends `X-Forwarded-User` and
    /// `X-Forwarded-Preferred-Username` or, behind another proxy, `X-Auth-Request-Email`; Authelia sends `Remote-User`.
    #[schemars(regex(pattern = r"^[A-Za-z0-9-]+$"), extend("x-form" = "the name of a header", "default" = "x-forwarded-email", "examples" = ["x-auth-request-email"]))]
    pub user_header: String,
    /// The header with the operator's groups, separated by commas. It is only read if `groups` has an entry.
    #[schemars(regex(pattern = r"^[A-Za-z0-9-]+$"), extend("x-form" = "the name of a header", "default" = "x-forwarded-groups", "examples" = ["x-auth-request-groups"]))]
    pub groups_header: String,
    /// The roles of operators by their names in the header, in the same spelling. Whoever has no role here and in `groups`
    /// has no access.
    #[schemars(extend("x-form" = "a table of roles (`read`, `tune`, `write`, `admin`)", "default" = {}, "examples" = [{"ann@example.org": "admin"}]))]
    pub users: BTreeMap<String, OperatorRole>,
    /// The roles of groups, for operators without an entry in `users`. The highest one of an operator's groups counts.
    #[schemars(extend("x-form" = "a table of roles (`read`, `tune`, `write`, `admin`)", "default" = {}, "examples" = [{"valve-operators": "write"}]))]
    pub groups: BTreeMap<String, OperatorRole>,
    /// The address at which the proxy signs an operator out, for the page's button.
    #[schemars(regex(pattern = r"^(https?://|/$|/[^/\\])"), extend("x-form" = "a path or a URL", "examples" = ["/oauth2/sign_out"]))]
    pub sign_out: Option<String>,
}

impl ProxySignIn {
    /// Returns `true` if operators can sign in at a proxy.
    pub fn is_on(&self) -> bool {
        !self.proxies.is_empty()
    }

    /// Returns `true` if the headers of requests from this address are those of the proxy.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(peer))
    }

    /// Returns the role of an operator with this name and these groups.
    pub fn role<'g>(&self, user: &str, groups: impl Iterator<Item = &'g str>) -> Option<OperatorRole> {
        let of_groups = || groups.filter_map(|group| self.groups.get(group).copied()).max();
        self.users.get(user).copied().or_else(of_groups)
    }
}
