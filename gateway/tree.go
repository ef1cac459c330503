package gateway

import (
	"sealbridge/manifest"
	"sealbridge/policy"
)

// TreeNode is one task of a tree as this gateway knows it: what is left where.
// A part that another gateway works on is known by what both owners signed about it.
type TreeNode struct {
	TaskID  string             `json:"taskId"`
	Title   string             `json:"title"`
	With    string             `json:"with"`
	State   string             `json:"state"`
	Outcome string             `json:"outcome,omitempty"`
	Depth   int64              `json:"depth"`          // how often it may be handed on from here
	Left    map[string]Balance `json:"left,omitempty"` // what is spent and kept back of each meter; of a part that is known by its contract alone, its share
	Share   bool               `json:"share,omitempty"`
	Held    bool               `json:"held,omitempty"`    // the share is kept back from the task above
	Waiting string             `json:"waiting,omitempty"` // whom a part waits for that nobody works on yet
	Tools   []ToolsLeft        `json:"tools,omitempty"`
	This    bool               `json:"this,omitempty"` // the task that was asked about
	Parts   []TreeNode         `json:"parts,omitempty"`
}

// ToolsLeft is what is left of a grant's uses, here or as its owner last said.
type ToolsLeft struct {
	Grant    string   `json:"grant"`
	Tools    []string `json:"tools"`
	Resource string   `json:"resource"`
	Left     int64    `json:"left"`
	Of       int64    `json:"of"`
}

// maxTree bounds how far up and down a tree is drawn: no contract is deeper.
const maxTree = 16

// treeOf is the tree that a task stands in, from the highest task above it that
// is here; nil for a task that stands alone and has nothing granted.
func (t *turn) treeOf(row taskRow) (*TreeNode, error) {
	top := row
	for range maxTree {
		if top.Parent == "" {
			break
		}
		above, err := t.row(top.Parent)
		if err != nil {
			return nil, err
		}
		top = above
	}
	n, err := t.node(top, row.Key, maxTree)
	if err != nil || len(n.Parts) == 0 && len(n.Tools) == 0 {
		return nil, err
	}
	return &n, nil
}

func (t *turn) node(row taskRow, this manifest.TaskKey, deep int) (n TreeNode, err error) {
	n = TreeNode{TaskID: row.Key.ID.String(), Title: manifest.Display(row.Title, 200), With: t.trust.Contacts[row.Peer].Name, Depth: row.contract().Permissions.MaxDelegationDepth, This: row.Key == this}
	n.State, n.Outcome = row.standing(t.now)
	v := TaskView{Budget: map[string]Balance{}}
	if row.Task.IsZero() {
		n.Left, n.Share = shareOf(row.contract().Budget.Limits()), true
	} else {
		if err := t.budgetOf(row, &v); err != nil {
			return n, err
		}
		n.Left = v.Budget
	}
	if n.Tools, err = t.toolsOf(row); err != nil || deep == 0 {
		return n, err
	}
	ps, err := t.partsOf(row)
	if err != nil {
		return n, err
	}
	for _, p := range ps {
		child, err := t.partNode(row, p, this, deep-1)
		if err != nil {
			return n, err
		}
		n.Parts = append(n.Parts, child)
	}
	return n, nil
}

// partNode is a part: as its task stands where it is ours, else as it was signed.
func (t *turn) partNode(parent taskRow, p PartView, this manifest.TaskKey, deep int) (TreeNode, error) {
	if parent.Role == manifest.Worker {
		id, err := manifest.ParseTaskID(p.TaskID)
		if err != nil {
			return TreeNode{}, err
		}
		if row, ok, err := tasks.Get(t.Tx, manifest.TaskKey{Owner: t.g.Owner, ID: id}.String()); err != nil || ok {
			if err != nil {
				return TreeNode{}, err
			}
			n, err := t.node(row, this, deep)
			if row.Task.IsZero() && row.Dropped == "" {
				n.State = p.State
			}
			n.Held, n.Waiting = p.Held, p.Waiting
			return n, err
		}
	}
	return TreeNode{TaskID: p.TaskID, Title: p.Title, With: p.With, State: p.State, Outcome: p.Outcome, Depth: p.Depth, Left: shareOf(p.Share), Share: true, Held: p.Held, Waiting: p.Waiting}, nil
}

// shareOf is a share of which nothing more is known here.
func shareOf(m manifest.Meters) map[string]Balance {
	out := map[string]Balance{}
	for _, x := range policy.Meters() {
		out[string(x)] = Balance{Limit: x.Of(m)}
	}
	return out
}

// toolsOf is what is left of the uses of what was granted in a task: counted
// here for tools of ours, as the owner last said for others.
func (t *turn) toolsOf(row taskRow) (out []ToolsLeft, err error) {
	rows, err := tokens.Group(t.Tx, row.Key.String())
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	said, err := t.usesLeft(row.Key.String())
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		k, d, err := t.token(r.V)
		if err != nil {
			return nil, err
		}
		u := ToolsLeft{Grant: k.CapabilityID.String(), Tools: k.AllowedTools, Resource: k.Resource.String(), Left: k.MaxInvocations, Of: k.MaxInvocations}
		if k.Issuer == t.g.Agent.DID() {
			l, err := t.ledger([]policy.Account{policy.GrantAccount(row.Key, k.CapabilityID), policy.LinkAccount(row.Key, d)})
			if err != nil {
				return nil, err
			}
			u.Left = policy.UsesLeft(l, row.Key, k, d)
		} else if n, ok := said[d]; ok {
			u.Left = n
		}
		out = append(out, u)
	}
	return out, nil
}
