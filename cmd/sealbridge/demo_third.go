package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sealbridge/gateway"
	"sealbridge/manifest"
)

// third is the story of the third owner: Ann asks Ben, Ben's agent hands a part
// to Cleo, and nobody hands it on further than the contract at the root says.
func (d *demo) third() []scene {
	return []scene{
		{"cleo", d.cleo}, {"lead", d.leads}, {"deep", d.asksDeep}, {"too deep", d.tooDeep}, {"hand on", d.handOn}, {"delegation", d.delegation},
		{"cleo contract", d.cleoContract}, {"further", d.further}, {"part", d.partBack}, {"answer", d.answer}, {"tree", d.tree},
	}
}

// cleo is a home, a gateway and an agent more, and a contact of Ben's only.
func (d *demo) cleo(ctx context.Context) error {
	if _, err := d.must(ctx, "cleo", "init", "--name", "Cleo", "--relay", d.address, "--unsealed"); err != nil {
		return err
	}
	if err := d.serve(ctx, "cleo"); err != nil {
		return err
	}
	if _, err := d.invites(ctx, "ben", "cleo"); err != nil {
		return err
	}
	words, err := d.compare(ctx, "ben", "cleo")
	if err != nil {
		return err
	}
	dir := filepath.Join(d.dir, "revenue")
	if _, err := d.must(ctx, "cleo", "agent", "add", "counter", "--read-only", dir, "--", "/bin/sh", filepath.Join(dir, "agent.sh")); err != nil {
		return err
	}
	d.tell("A third owner, Cleo, with a gateway of her own and the same script. Only Ben knows her.")
	d.more("%s", words)
	return nil
}

// leads lets the agent that Ben talks to work for others: one that comes by
// itself, because a program in a box has all of the budget and nothing to hand on.
func (d *demo) leads(ctx context.Context) error {
	if _, err := d.must(ctx, "ben", "agent", "remove", "coder"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	added, err := ask[struct {
		Entry serverEntry `json:"entry"`
	}](ctx, d, "ben", "agent", "add", "lead", "--client", "claude-code", "--tools", "worker", "--binary", self)
	if err != nil {
		return err
	}
	d.lead = added.Entry
	err = eventually(ctx, "Ben's gateway to have read who works", func() (bool, error) {
		s, err := ask[gateway.Status](ctx, d, "ben", "status")
		return err == nil && strings.Join(s.Agents, " ") == "lead", err
	})
	if err != nil {
		return err
	}
	d.tell("Ben lets the agent that he talks to take work. It comes by MCP; a few lines stand in for its model.")
	return nil
}

const deepDraft = `title: November in one line
goal: |
  Say which region of sales.csv sold most in November, and its share of all sales.
done_when:
  - the region, and its share in percent with one decimal
inputs: [sales.csv]
output:
  type: object
  required: [region, percent]
  properties: {region: {type: string}, percent: {type: string}}
check: [schema, person]
budget: {time: 5m}
deadline: 1d
sandbox: {claimed_ok: true}        # an agent in its owner's session is in no box
delegation_depth: 1
`

func (d *demo) asksDeep(ctx context.Context) error {
	draft := filepath.Join(d.dir, "revenue", "november.yaml")
	if err := os.WriteFile(draft, []byte(deepDraft), 0o644); err != nil {
		return err
	}
	p, err := ask[gateway.Proposed](ctx, d, "ann", "propose", draft, "--to", "ben")
	if err != nil {
		return err
	}
	d.deep = p.Task
	d.tell("Ann asks Ben for more, and lets him hand a part of it on: delegation_depth: 1.")
	for _, who := range []string{"ann", "ben"} {
		if err := d.decides(ctx, who, manifest.ContractGate); err != nil {
			return err
		}
	}
	return eventually(ctx, "the start", func() (bool, error) {
		_, err := d.leadCalls(ctx, "start_task", map[string]any{"task_id": d.deep})
		return err == nil, err
	})
}

// decides is gate in a line; with -v the whole card is shown.
func (d *demo) decides(ctx context.Context, who string, gate manifest.Gate) error {
	if d.verbose {
		return d.gate(ctx, who, gate)
	}
	a, err := d.asked(ctx, who, gate)
	if err != nil {
		return err
	}
	if _, err := d.must(ctx, who, "gate", "allow", a.AskID.String()); err != nil {
		return err
	}
	d.more("%-5s %s  allow", strings.ToUpper(who[:1])+who[1:], a.Question)
	return nil
}

// partFor is what Ben's agent asks of Cleo.
func (d *demo) partFor() map[string]any {
	return map[string]any{"task_id": d.deep, "to": "cleo", "title": "Totals per region", "goal": "Add up amount_eur of sales.csv per region.", "done_when": []string{"one total for each region"},
		"hand_on": []string{"sales.csv"}, "sandbox": map[string]any{"claimed_ok": true}, // no wider than Ann's: a machine without namespaces says so
		"output": map[string]any{"type": "object", "required": []string{"totals"}, "properties": map[string]any{"totals": map[string]any{"type": "object"}}}}
}

// tooDeep sees a part refused that could be handed on again.
func (d *demo) tooDeep(ctx context.Context) error {
	part := d.partFor()
	part["delegation_depth"] = 1
	_, err := d.leadCalls(ctx, "delegate_subtask", part)
	if err == nil || !strings.HasPrefix(err.Error(), "depth-exceeded") {
		return fmt.Errorf("a part as deep as its task: %v, want depth-exceeded", err)
	}
	d.tell("Ben's agent would hand on a part that may be handed on again. Refused before anybody is asked:")
	d.more("%s", err)
	return nil
}

func (d *demo) handOn(ctx context.Context) error {
	out, err := d.leadCalls(ctx, "delegate_subtask", d.partFor())
	if err != nil {
		return err
	}
	var made struct {
		Task string `json:"task_id"`
		Next struct {
			Do string `json:"do"`
		} `json:"next"`
	}
	if err := json.Unmarshal(out, &made); err != nil || made.Task == "" {
		return errors.Join(err, fmt.Errorf("delegate_subtask answered %s", out))
	}
	d.part = made.Task
	d.tell("It hands on a part for Cleo, one deep and no deeper. It waits; Cleo has heard nothing.")
	d.more("%s", made.Next.Do)
	return nil
}

// delegation is the gate that a part passes twice: at who asked for the work, then at who hands it on.
func (d *demo) delegation(ctx context.Context) error {
	d.tell("Ann's gate comes first: her file would reach an owner whom she does not know.")
	if err := d.gate(ctx, "ann", manifest.SubGate); err != nil {
		return err
	}
	d.tell("Ben's gate. His yes names hers; then he is asked for the contract, as for any other.")
	if err := d.gate(ctx, "ben", manifest.SubGate); err != nil {
		return err
	}
	return d.decides(ctx, "ben", manifest.ContractGate)
}

func (d *demo) cleoContract(ctx context.Context) error {
	d.tell("Cleo's gate. She sees Ben, the bounds of the contract above, and nothing else of it.")
	return d.gate(ctx, "cleo", manifest.ContractGate)
}

// further sees the last owner of the chain hand the work on, which the contract permits to nobody.
func (d *demo) further(ctx context.Context) error {
	out, code := d.cli(ctx, "cleo", "propose", "--parent", d.part, "--to", "ben", "--hand-on", "sales.csv", "-m", "Add up the north")
	if code != exitNo || !strings.Contains(out, "depth-exceeded") {
		return fmt.Errorf("what is handed on to nobody was: exit %d: %s", code, out)
	}
	d.tell("Cleo cannot hand it on further:")
	line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	d.more("%s", line)
	return nil
}

func (d *demo) partBack(ctx context.Context) error {
	d.tell("Cleo's agent works in its box. What it delivers is Ben's to accept, not Ann's.")
	return d.decides(ctx, "ben", manifest.DeliveryGate)
}

// answer is Ben's agent's result, made from Cleo's: it reaches Ann by the same gate as any.
func (d *demo) answer(ctx context.Context) error {
	totals, err := d.leadReads(ctx)
	if err != nil {
		return err
	}
	out, err := topOf(totals)
	if err != nil {
		return err
	}
	_, err = d.leadCalls(ctx, "return_result", map[string]any{"task_id": d.deep, "output": out,
		"evidence": []any{map[string]any{"criterion": "ac_1", "text": "from the totals of a part that was handed on"}}})
	if err != nil {
		return err
	}
	d.tell("Ben's agent reads Cleo's totals, as another owner's words, and answers Ann with them.")
	if err := d.decides(ctx, "ann", manifest.DeliveryGate); err != nil {
		return err
	}
	got := ""
	err = eventually(ctx, "the answer", func() (ok bool, err error) {
		got, err = d.must(ctx, "ann", "task", "result", d.deep)
		return err == nil, err
	})
	if got = strings.TrimSpace(got); err == nil && got != `{"percent":"33.3","region":"south"}` {
		err = fmt.Errorf("the answer is not what the sums are: %q", got)
	}
	if err == nil {
		d.more("%s", got)
	}
	return err
}

// tree exports both contracts, each from its requester, and verifies them.
func (d *demo) tree(ctx context.Context) error {
	for _, x := range []struct{ task, name, by, other string }{{d.deep, "deep.json", "ann", "ben"}, {d.part, "part.json", "ben", "cleo"}} {
		if _, err := d.exports(ctx, x.task, x.name, x.by, x.other); err != nil {
			return err
		}
	}
	d.tell("Two contracts, two bundles, each whole by itself:")
	for _, name := range []string{"deep.json", "part.json"} {
		if err := d.binds(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
