"""How rows reach the join cores, and how results leave: one module a flow, over a network of nodes and bounded links."""
