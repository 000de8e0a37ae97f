//! What the containers of a pod ask for together: `aggregateContainerResourcesByFn` of
//! k8s.io/component-helpers/resource. Field numbers are those of `k8s.io/api/core/v1/generated.proto`.

use crate::amount::Amounts;
use crate::protobuf::Message;
use crate::status::Result;
use std::collections::BTreeMap;

/// The containers of a pod.
pub struct Containers<'a> {
    main: Vec<Container<'a>>,
    init: Vec<Container<'a>>,
}

/// What a container asks for, and what else the node has given it.
pub struct Container<'a> {
    is_sidecar: bool,
    spec: Amounts<'a>,
    /// None where that is what it asks for.
    given: Option<Given<'a>>,
}

/// What the node has set aside for a container, and what the container has.
struct Given<'a> {
    allocated: Amounts<'a>,
    actuated: Amounts<'a>,
}

/// The first status of each container, by its name.
type Statuses<'a> = BTreeMap<&'a [u8], Message<'a>>;

/// Which amounts of a container are asked for.
pub type Ask<'a> = for<'c> fn(&'c Container<'a>) -> &'c Amounts<'a>;

impl<'a> Containers<'a> {
    /// The containers of a PodSpec and a PodStatus. If a resize is infeasible, the spec is not taken for the status.
    pub fn read(spec: Message<'a>, status: Message<'a>, is_infeasible: bool) -> Result<Containers<'a>> {
        let mut statuses = Statuses::new();
        for number in [8, 10] {
            for bytes in status.repeated(number) {
                let status = Message(bytes?);
                statuses.entry(name(status)?).or_insert(status);
            }
        }
        let read = |number| -> Result<Vec<Container<'a>>> {
            spec.repeated(number).map(|bytes| Container::read(Message(bytes?), &statuses, is_infeasible)).collect()
        };
        Ok(Containers { main: read(2)?, init: read(20)? })
    }

    /// Whether the node has given each what it asks for, as far as its status says.
    pub fn have_what_they_ask_for(&self) -> bool {
        self.all().all(|container| container.given.is_none())
    }

    /// Whether each names these resources wherever it names any.
    pub fn name_all(&self, wanted: &Amounts<'a>) -> bool {
        self.all().flat_map(Container::amounts).all(|amounts| amounts.has_all(wanted))
    }

    fn all(&self) -> impl Iterator<Item = &Container<'a>> {
        self.main.iter().chain(&self.init)
    }

    /// What is needed at the same time: by the containers and the sidecars, or by an init container with the sidecars
    /// before it. `missing` is for each one that does not name these resources.
    pub fn sum(&self, missing: &Amounts<'a>, amounts: Ask<'a>) -> Amounts<'a> {
        let of = |container| amounts(container).filled(missing);
        let mut sum = Amounts::default();
        self.main.iter().for_each(|container| sum.add(&of(container)));
        let (mut sidecars, mut peak) = (Amounts::default(), Amounts::default());
        for container in &self.init {
            let own = of(container);
            let mut now = own.clone().into_owned();
            now.add_known(&sidecars);
            peak.raise(&now);
            if container.is_sidecar {
                sum.add(&own);
                sidecars.add(&own);
            }
        }
        sum.raise(&peak);
        sum
    }
}

impl<'a> Container<'a> {
    fn read(container: Message<'a>, statuses: &Statuses<'a>, is_infeasible: bool) -> Result<Container<'a>> {
        let status = statuses.get(name(container)?).copied().unwrap_or_default();
        let spec = Amounts::read(container.child(8)?, 2)?;
        let (allocated, actuated) = (Amounts::read(status, 10)?, Amounts::read(status.child(11)?, 2)?);
        let given = if allocated.is_empty() && actuated.is_empty() && !is_infeasible {
            None
        } else {
            let unknown = if is_infeasible { Amounts::default() } else { spec.clone() };
            let allocated = allocated.or(unknown);
            let actuated = actuated.or(allocated.clone());
            Some(Given { allocated, actuated })
        };
        let is_sidecar = container.bytes(24)? == Some(&b"Always"[..]);
        Ok(Container { is_sidecar, spec, given })
    }

    pub fn spec(&self) -> &Amounts<'a> {
        &self.spec
    }

    pub fn allocated(&self) -> &Amounts<'a> {
        self.given.as_ref().map_or(&self.spec, |given| &given.allocated)
    }

    pub fn actuated(&self) -> &Amounts<'a> {
        self.given.as_ref().map_or(&self.spec, |given| &given.actuated)
    }

    fn amounts(&self) -> [&Amounts<'a>; 3] {
        [&self.spec, self.allocated(), self.actuated()]
    }
}

/// The name of a container, or of the one that a status is about.
fn name(message: Message<'_>) -> Result<&[u8]> {
    Ok(message.bytes(1)?.unwrap_or_default())
}
