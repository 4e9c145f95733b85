package rpc

import (
	"cmp"
	"context"
	"slices"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/enterprise"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Enterprise answers operators about the terms of accounts, and about who asks for terms.
type Enterprise struct {
	billingv1.UnimplementedEnterpriseAdminServiceServer
	Agreements *enterprise.Agreements
	Contacts   *enterprise.Contacts
}

// GetAccountTerms reads the terms of an account. A malformed id is not found either.
func (s *Enterprise) GetAccountTerms(
	ctx context.Context, req *billingv1.GetAccountTermsRequest,
) (*billingv1.GetAccountTermsResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	terms, err := s.Agreements.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetAccountTermsResponse{Terms: termsToProto(terms), Note: terms.Note}, nil
}

// SetAccountTerms replaces the terms of an account.
func (s *Enterprise) SetAccountTerms(
	ctx context.Context, req *billingv1.SetAccountTermsRequest,
) (*billingv1.SetAccountTermsResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	terms, err := termsFromProto(req.GetTerms())
	if err != nil {
		return nil, err
	}
	terms.Note = req.GetNote()
	if err := s.Agreements.Set(byOperator(ctx), id, terms); err != nil {
		return nil, err
	}
	return &billingv1.SetAccountTermsResponse{Terms: termsToProto(terms), Note: terms.Note}, nil
}

// ListEnterpriseContacts is one page of the messages by which accounts ask for terms.
func (s *Enterprise) ListEnterpriseContacts(
	ctx context.Context, req *billingv1.ListEnterpriseContactsRequest,
) (*billingv1.ListEnterpriseContactsResponse, error) {
	page, next, err := s.Contacts.List(ctx, enterprise.ContactState(req.GetState()), req.GetCursor(),
		int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListEnterpriseContactsResponse{NextCursor: next}
	for _, c := range page {
		m.List = append(m.List, contactToProto(c))
	}
	return m, nil
}

// AnswerEnterpriseContact marks a message as answered. A malformed id is not found either.
func (s *Enterprise) AnswerEnterpriseContact(
	ctx context.Context, req *billingv1.AnswerEnterpriseContactRequest,
) (*billingv1.AnswerEnterpriseContactResponse, error) {
	var id enterprise.ContactID
	if err := id.UnmarshalText([]byte(req.GetContactId())); err != nil {
		return nil, enterprise.NoContact()
	}
	answered, err := s.Contacts.Answer(byOperator(ctx), id, req.GetNote())
	if err != nil {
		return nil, err
	}
	return &billingv1.AnswerEnterpriseContactResponse{Contact: contactToProto(answered)}, nil
}

func contactToProto(c enterprise.Contact) *billingv1.EnterpriseContact {
	return &billingv1.EnterpriseContact{
		ContactId: c.ID.String(), AccountId: c.Account.String(), Email: c.Email, Company: c.Company, Message: c.Message,
		State: string(c.State()), CreatedAt: timestamp(c.Created), AnsweredAt: timestamp(c.Answered),
		AnsweredBy: actor.OperatorName(c.AnsweredBy),
	}
}

// maxCategories bounds the categories of a message; there are five.
const maxCategories = 5

func termsFromProto(m *billingv1.AccountTerms) (enterprise.Terms, error) {
	// A number outside of its type must not become another.
	if m.GetDiscountBasisPoints() < 0 || m.GetDiscountBasisPoints() > int32(enterprise.MaxDiscount) {
		return enterprise.Terms{}, fault.New(fault.Invalid, fault.InvalidValue,
			"discount_basis_points must be from 0 to %d", enterprise.MaxDiscount).On("discount_basis_points")
	}
	terms := enterprise.Terms{
		RequestsPerMinute: m.GetRequestsPerMinute(), Discount: money.Discount(m.GetDiscountBasisPoints()),
		Priority: m.GetPriority(), Categories: map[limit.Class]enterprise.Category{},
	}
	if len(m.GetCategories()) > maxCategories {
		return enterprise.Terms{}, malformed("categories")
	}
	for _, c := range m.GetCategories() {
		class, ok := limit.ClassOf(c.GetCategory())
		if _, twice := terms.Categories[class]; !ok || twice {
			return enterprise.Terms{}, fault.New(fault.Invalid, fault.InvalidValue,
				"categories.category must be llm, multimodal, embedding, image or audio, each once").
				On("categories.category")
		}
		if !wholeTokens(c.GetTokensPerDay()) {
			return enterprise.Terms{}, malformed("categories.tokens_per_day")
		}
		terms.Categories[class] = enterprise.Category{RequestsPerMinute: c.GetRequestsPerMinute(),
			ConcurrentRequests: c.GetConcurrentRequests(), TokensPerDay: int64(c.GetTokensPerDay())}
	}
	return terms, nil
}

// wholeTokens reports whether a number is a count of tokens that is small enough to be exact.
func wholeTokens(n float64) bool {
	return n >= 0 && n <= enterprise.MaxTokens && n == float64(int64(n))
}

func termsToProto(t enterprise.Terms) *billingv1.AccountTerms {
	m := &billingv1.AccountTerms{
		RequestsPerMinute: t.RequestsPerMinute, DiscountBasisPoints: int32(t.Discount), Priority: t.Priority,
	}
	for class, c := range t.Categories {
		m.Categories = append(m.Categories, &billingv1.CategoryTerms{
			Category: class.Category(), RequestsPerMinute: c.RequestsPerMinute,
			ConcurrentRequests: c.ConcurrentRequests, TokensPerDay: float64(c.TokensPerDay),
		})
	}
	slices.SortFunc(m.Categories, func(a, b *billingv1.CategoryTerms) int {
		return cmp.Compare(a.GetCategory(), b.GetCategory())
	})
	return m
}
