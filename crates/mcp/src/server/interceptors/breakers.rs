//! The circuit breakers of filters that other hosts call.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use valvehouse_core::breaker::{Breaker, BreakerSettings};
use valvehouse_host::Plugin;
use valvehouse_script::Script;

/// One breaker for each filter, beside that of the host's own turns: a caller whose payloads a filter fails at does not
/// take it from anybody's chats.
pub(in crate::server) struct InterceptorBreakers {
    settings: BreakerSettings,
    all: Mutex<HashMap<String, OfVersion>>,
}

/// The breaker of a filter as it was saved.
struct OfVersion {
    script: Weak<Script>,
    breaker: Arc<Breaker>,
}

impl InterceptorBreakers {
    pub(in crate::server) fn new(settings: BreakerSettings) -> Self {
        Self { settings, all: Mutex::default() }
    }

    /// The breaker of a filter, a new one for each saved version.
    pub(super) fn of(&self, plugin: &Plugin) -> Arc<Breaker> {
        let script = plugin.script.as_ref().map_or_else(Weak::new, Arc::downgrade);
        let mut all = self.all.lock();
        if let Some(known) = all.get(&*plugin.id)
            && known.script.ptr_eq(&script)
        {
            return known.breaker.clone();
        }
        let breaker = Arc::new(Breaker::new(format!("{} (as an interceptor)", plugin.id), self.settings));
        all.insert(plugin.id.to_string(), OfVersion { script, breaker: breaker.clone() });
        breaker
    }
}
