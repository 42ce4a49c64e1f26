//! The services of resource pools, with the names of Solaris.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Resource pools: `svc:/system/pools:default`.
    Pools,
    /// Dynamic resource pools, which move CPUs between pools: `svc:/system/pools/dynamic:default`. They need [`Service::Pools`].
    DynamicPools,
}

/// All of them.
pub const SERVICES: [Service; 2] = [Service::Pools, Service::DynamicPools];

/// A name that is not that of a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no service `{0}`")]
pub struct NoSuchService(pub String);

impl Service {
    /// Its name without the instance.
    fn short(self) -> &'static str {
        match self {
            Service::Pools => "system/pools",
            Service::DynamicPools => "system/pools/dynamic",
        }
    }

    /// The service that must be enabled for this one to run.
    #[must_use]
    pub fn needs(self) -> Option<Service> {
        match self {
            Service::Pools => None,
            Service::DynamicPools => Some(Service::Pools),
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "svc:/{}:default", self.short())
    }
}

/// Accepts `svc:/system/pools:default` and its abbreviations: `system/pools`, `pools`, `pools/dynamic:default`.
impl FromStr for Service {
    type Err = NoSuchService;

    fn from_str(text: &str) -> Result<Self, NoSuchService> {
        let name = text.strip_prefix("svc:/").unwrap_or(text);
        let name = name.strip_suffix(":default").unwrap_or(name);
        let is = |service: &Service| {
            let short = service.short();
            name == short || short.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'))
        };
        SERVICES
            .into_iter()
            .find(is)
            .filter(|_| !name.is_empty())
            .ok_or_else(|| NoSuchService(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_may_be_shortened_from_the_left_and_without_its_instance() {
        for name in ["svc:/system/pools:default", "system/pools", "system/pools:default", "pools"] {
            assert_eq!(name.parse(), Ok(Service::Pools), "{name}");
        }
        for name in ["svc:/system/pools/dynamic:default", "pools/dynamic", "dynamic:default"] {
            assert_eq!(name.parse(), Ok(Service::DynamicPools), "{name}");
        }
        for name in ["", "ools", "system", "network/ssh", "pools:other"] {
            assert_eq!(name.parse::<Service>(), Err(NoSuchService(name.to_owned())));
        }
    }
}
