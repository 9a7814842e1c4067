use plimsoll_core::{Catalogue, Launch, Member, Node, NodeSet, ServerSpec, StoreError, Waits};

use super::*;

/// Recipe of so many nodes. The third one and those behind it keep no data.
struct Nodes(usize);

impl Recipe for Nodes {
    fn spec(&self) -> ServerSpec {
        ServerSpec { nodes: self.0, ..ServerSpec::new("Toy", "toy", "none") }
    }

    fn keeps_data(&self, node: usize) -> bool {
        node < 2
    }

    fn launch(&self, _: Member<'_>) -> Result<Launch, StoreError> {
        panic!("nothing is started")
    }

    fn ready(&self, _: &Node, _: &Waits) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Returns the words and the remedy with which the power of a node of so many is refused.
fn refusal(node: NodeChoice, nodes: Option<usize>) -> Option<(String, String)> {
    let catalogue = Catalogue {
        labs: Vec::new(),
        stores: vec![plimsoll_store_null::kind()],
        workloads: plimsoll_workload::all(),
        samplers: Vec::new(),
    };
    let text =
        "stores = [\"null\"]\nsamplers = []\n[workload]\nname = \"nothing\"\n[[phase]]\ndo = \"drive\"\nops = 3\n";
    let mut plan = plimsoll_plan::parse("power", text, &catalogue, &Default::default()).unwrap();
    for phase in &mut plan.trials[0].phases {
        if let PhaseStep::Drive(drive) = &mut phase.step {
            drive.power_node = node;
        }
    }
    let recipe = nodes.map(Nodes);
    let error = power_node(&plan.trials[0], recipe.as_ref().map(|recipe| recipe as &dyn Recipe)).err()?;
    Some((error.what, error.next.unwrap_or_default()))
}

#[test]
fn only_a_node_that_is_there_and_keeps_data_loses_power_alone() {
    use NodeChoice::{All, Number, Primary, Replica};
    for (node, nodes) in
        [(All, None), (All, Some(1)), (All, Some(3)), (Primary, Some(3)), (Replica, Some(3)), (Number(2), Some(3))]
    {
        assert_eq!(refusal(node, nodes), None, "{node:?} of {nodes:?}");
    }
    for (node, nodes, words, next) in [
        (Number(1), None, "power_node = 1: null has no nodes", "leave `power_node` out"),
        (Primary, Some(1), "power_node = primary: null has no nodes", "use a store of several nodes"),
        (Number(4), Some(3), "power_node = 4: null has no node 4", "the number of a node: 1 to 3"),
        (Number(3), Some(3), "power_node = 3: node 3 of null keeps no data", "the number of a node: 1, 2"),
    ] {
        let (what, advice) = refusal(node, nodes).expect(words);
        assert_eq!(what, format!("phase drive: {words}"));
        assert!(advice.contains(next), "{advice}");
    }
}

#[test]
fn a_role_needs_a_node_that_may_have_it() {
    let advice = |choice, nodes| no_such_node(choice, "toy", &Nodes(nodes));
    assert_eq!(advice(NodeChoice::Replica, 2), None);
    assert_eq!(advice(NodeChoice::Primary, 1), None);
    assert_eq!(advice(NodeChoice::Number(2), 2), None);
    let words = |what: &str, next: &str| Some((what.to_owned(), next.to_owned()));
    let alone = "write all: there is one node";
    assert_eq!(advice(NodeChoice::Replica, 1), words("toy has no replica: it has one node", alone));
    assert_eq!(advice(NodeChoice::Number(2), 1), words("toy has no node 2", alone));
    let several = "write all, or the number of a node: 1 to 2";
    assert_eq!(advice(NodeChoice::Number(3), 2), words("toy has no node 3", several));
    let [first, last] = [[0, 1], [1, 2]].map(|numbers| NodeChoice::Numbers(NodeSet::of(&numbers).unwrap()));
    assert_eq!((advice(first, 2), advice(last, 2)), (None, words("toy has no node 3", several)));
    assert_eq!(advice(NodeChoice::Minority, 2), words("toy has no minority: it has 2 nodes", several));
    assert_eq!(advice(NodeChoice::Minority, 1), words("toy has no minority: it has 1 node", alone));
    assert_eq!([NodeChoice::Minority, NodeChoice::Majority].map(|part| advice(part, 3)), [None, None]);
}
