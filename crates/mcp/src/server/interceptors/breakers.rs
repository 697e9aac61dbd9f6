//! The circuit breakers of filters that other hosts call.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use valvehouse_core::breaker::{Breaker, BreakerSettings};
use valvehouse_host::Plugin;
use valvehouse_script::Script;

/// A circuit breaker for each filter, separate from that of the host's own turns: payloads of a caller that
/// make a filter fail must not disable it in chats.
pub(in crate::server) struct InterceptorBreakers {
    settings: BreakerSettings,
    all: Mutex<HashMap<String, OfVersion>>,
}

/// The breaker of one version of a filter.
struct OfVersion {
    script: Weak<Script>,
    breaker: Arc<Breaker>,
}

impl InterceptorBreakers {
    pub(in crate::server) fn new(settings: BreakerSettings) -> Self {
        Self { settings, all: Mutex::default() }
    }

    /// Returns the breaker of a filter, a new one for each version.
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
