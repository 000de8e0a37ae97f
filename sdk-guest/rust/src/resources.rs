use crate::amount::Amounts;
use crate::label::Label;

/// Amounts of resources as `Resource` of pkg/scheduler/framework/types.go has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// How many pods.
    pub pods: i64,
    /// Others than 0, each once, in the order of their labels.
    scalars: Vec<(Label, i64)>,
}

impl Resources {
    pub(crate) fn of(amounts: &Amounts) -> Resources {
        let mut resources = Resources::default();
        for (name, amount) in amounts.iter() {
            match name {
                b"cpu" => resources.milli_cpu = amount.milli_value(),
                b"memory" => resources.memory = amount.value(),
                b"ephemeral-storage" => resources.ephemeral_storage = amount.value(),
                b"pods" => resources.pods = amount.value(),
                name if is_scalar(name) && amount.value() != 0 => {
                    resources.scalars.push((Label::new(Some(name)), amount.value()));
                }
                _ => {}
            }
        }
        resources.scalars.sort();
        resources
    }

    /// How much there is of an extended resource, of huge pages of a size or of attachable volumes.
    pub fn scalar(&self, name: &Label) -> i64 {
        self.scalars.iter().find(|(known, _)| known == name).map_or(0, |(_, amount)| *amount)
    }

    /// All of those of which there are any.
    pub fn scalars(&self) -> impl Iterator<Item = (&Label, i64)> {
        self.scalars.iter().map(|(name, amount)| (name, *amount))
    }

    /// Adds `times` as much as the other has. As in the scheduler, what leaves 64 bits wraps, and so comes back.
    pub fn add(&mut self, times: i64, other: &Resources) {
        for (own, more) in [
            (&mut self.milli_cpu, other.milli_cpu),
            (&mut self.memory, other.memory),
            (&mut self.ephemeral_storage, other.ephemeral_storage),
            (&mut self.pods, other.pods),
        ] {
            *own = own.wrapping_add(times.wrapping_mul(more));
        }
        self.scalars.extend(other.scalars().map(|(name, amount)| (name.clone(), times.wrapping_mul(amount))));
        self.scalars.sort(); // Not one by one: a pod may name thousands of them.
        self.scalars.dedup_by(|(name, more), (known, amount)| {
            let is_known = name == known;
            *amount = amount.wrapping_add(if is_known { *more } else { 0 });
            is_known
        });
        self.scalars.retain(|(_, amount)| *amount != 0);
    }
}

/// Whether the scheduler counts a resource that has no field of its own: `IsScalarResourceName` of
/// pkg/scheduler/util/utils.go, for names that the API server has let pass.
fn is_scalar(name: &[u8]) -> bool {
    let is_prefixed_native = name.windows(14).any(|part| part == b"kubernetes.io/");
    let is_extended = name.contains(&b'/') && !name.starts_with(b"requests.");
    is_prefixed_native || is_extended || name.starts_with(b"hugepages-") || name.starts_with(b"attachable-volumes-")
}

#[cfg(test)]
mod tests {
    use super::{is_scalar, Resources};
    use crate::amount::{Amount, Amounts};
    use crate::label::Label;

    fn resources(all: &[(&'static str, u64)]) -> Resources {
        let mut amounts = Amounts::default();
        all.iter().for_each(|(name, units)| amounts.set(name.as_bytes(), Amount::new(*units, 0)));
        Resources::of(&amounts)
    }

    fn all(resources: &Resources) -> ([i64; 4], Vec<(String, i64)>) {
        let scalars = resources.scalars().map(|(name, amount)| (String::from_utf8(name.text()).unwrap(), amount));
        let named = [resources.milli_cpu, resources.memory, resources.ephemeral_storage, resources.pods];
        (named, scalars.collect())
    }

    #[test]
    fn each_resource_has_its_place() {
        let found = resources(&[
            ("cpu", 4),
            ("memory", 5),
            ("ephemeral-storage", 6),
            ("pods", 110),
            ("example.com/gpu", 8),
            ("hugepages-2Mi", 9),
            ("example.com/none", 0),
            ("storage", 10),
        ]);
        let scalars = vec![("example.com/gpu".into(), 8), ("hugepages-2Mi".into(), 9)];
        assert_eq!(all(&found), ([4000, 5, 6, 110], scalars));
        let [gpu, none] = [&b"example.com/gpu"[..], b"example.com/none"].map(|name| Label::new(Some(name)));
        assert_eq!((found.scalar(&gpu), found.scalar(&none)), (8, 0));
    }

    #[test]
    fn what_is_added_is_taken_away_again() {
        let mut sum = resources(&[("cpu", 1), ("pods", 1), ("example.com/gpu", 2)]);
        let other = resources(&[("memory", 7), ("example.com/gpu", 1), ("example.com/fpga", 3)]);
        sum.add(1, &other);
        let scalars = vec![("example.com/gpu".into(), 3), ("example.com/fpga".into(), 3)];
        assert_eq!(all(&sum), ([1000, 7, 0, 1], scalars));
        sum.add(-1, &other);
        assert_eq!(all(&sum), ([1000, 0, 0, 1], vec![("example.com/gpu".into(), 2)]));
    }

    #[test]
    fn sums_wrap_and_come_back() {
        let mut sum = resources(&[("memory", u64::MAX)]);
        let other = sum.clone();
        sum.add(1, &other);
        sum.add(-1, &other);
        assert_eq!(sum.memory, i64::MAX);
    }

    #[test]
    fn names_of_resources_that_are_counted() {
        for (name, expected) in [
            ("example.com/gpu", true),
            ("hugepages-1Gi", true),
            ("attachable-volumes-csi-x", true),
            ("node.kubernetes.io/x", true),
            ("requests.node.kubernetes.io/x", true),
            ("requests.example.com/gpu", false),
            ("storage", false),
            ("", false),
        ] {
            assert_eq!(is_scalar(name.as_bytes()), expected, "{}", name);
        }
    }
}
