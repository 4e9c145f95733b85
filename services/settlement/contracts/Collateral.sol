// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AccessControlDefaultAdminRules} from
    "@openzeppelin/contracts/access/extensions/AccessControlDefaultAdminRules.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";

/// @title The collateral of providers on one chain
/// @notice A depositor puts collateral behind a provider. A position belongs to its depositor: its money
/// goes back to the depositor, or to the treasury when a penalty takes it, and nowhere else.
/// @dev Sources of the rules: specification, "Collateral options" (one token for each chain), "Transitions"
/// (a refund waits 7 days) and "Penalty record" (48 hours to appeal); decisions, "Ladder" and "Penalty"
/// (no refund while a penalty is open, escrow at once, an appeal stops the clock).
///
/// The contract cannot be replaced or paused, and token and treasury never change. No role can
/// pay anybody but depositors and the treasury. At each moment at most one of executeSlash, resolve and
/// lapse can end a penalty. 32 days after its proposal at the latest anybody can let it lapse, so no
/// escrow stays for ever.
///
/// The token must not lower balances by itself. What arrives in any other way than by deposit stays here.
contract Collateral is AccessControlDefaultAdminRules, ReentrancyGuard {
    using SafeERC20 for IERC20;

    /// @notice Requests refunds for providers, cancels these requests, and passes appeals on.
    bytes32 public constant OPERATOR = keccak256("OPERATOR");
    /// @notice Proposes slashes, and executes those that nobody has appealed.
    bytes32 public constant SLASHER = keccak256("SLASHER");
    /// @notice Decides appeals.
    bytes32 public constant ARBITER = keccak256("ARBITER");

    /// @notice The admin is replaced 3 days after the admin has said so, not before.
    uint48 public constant ADMIN_DELAY = 3 days;
    /// @notice The time from an operator's request to its refund.
    uint64 public constant REFUND_WAIT = 7 days;
    /// @notice The time from a depositor's own request to its refund. The depositor needs nobody for it.
    uint64 public constant EXIT_WAIT = 30 days;
    /// @notice The time from a proposal in which it can be appealed, and in which it cannot be executed.
    uint64 public constant APPEAL_WINDOW = 48 hours;
    /// @notice The time from a proposal, or from its appeal, after which it can only lapse.
    uint64 public constant LAPSE_AFTER = 30 days;

    /// @notice What one depositor has put behind one provider.
    /// @param free The amount that no penalty has set aside.
    /// @param escrow The amount that open penalties have set aside.
    /// @param refundAt When the refund that an operator requested is due; 0: none was requested.
    /// @param exitAt When the refund that the depositor requested is due; 0: none was requested.
    struct Position {
        uint128 free;
        uint128 escrow;
        uint64 refundAt;
        uint64 exitAt;
    }

    /// @notice Where a penalty stands. The last three are final.
    enum State {
        None,
        Proposed,
        Appealed,
        Executed,
        Reversed,
        Lapsed
    }

    /// @notice A slash of one position.
    /// @param provider The provider of the position.
    /// @param depositor The depositor of the position.
    /// @param since When the penalty came into its state, as far as the state is not final.
    /// @param state Where the penalty stands.
    /// @param amount The amount that it has set aside.
    struct Penalty {
        bytes32 provider;
        address depositor;
        uint64 since;
        State state;
        uint128 amount;
    }

    /// @notice The token of all positions; the zero address stands for the chain's coin.
    IERC20 public immutable token;
    /// @notice Who receives what penalties take.
    address payable public immutable treasury;

    /// @notice The sum of all positions, free and in escrow.
    /// @dev It is at most what a uint128 holds, and with it each position, so no later sum can overflow.
    uint256 public held;

    mapping(bytes32 provider => mapping(address depositor => Position)) private _positions;
    mapping(bytes32 penalty => Penalty) private _penalties;

    /// @notice A deposit was credited with what arrived.
    event Deposited(bytes32 indexed provider, address indexed depositor, uint256 amount);
    /// @notice An operator has requested a refund.
    event RefundRequested(bytes32 indexed provider, address indexed depositor, uint256 dueAt);
    /// @notice The refund that an operator requested is off: it was cancelled, or a penalty took all there was.
    event RefundCancelled(bytes32 indexed provider, address indexed depositor);
    /// @notice The depositor has requested a refund.
    event ExitRequested(bytes32 indexed provider, address indexed depositor, uint256 dueAt);
    /// @notice The refund that the depositor requested is off: it was cancelled, or a penalty took all there was.
    event ExitCancelled(bytes32 indexed provider, address indexed depositor);
    /// @notice A position was paid back to its depositor.
    event Refunded(bytes32 indexed provider, address indexed depositor, uint256 amount);
    /// @notice An amount was moved into escrow.
    event SlashProposed(
        bytes32 indexed penalty,
        bytes32 indexed provider,
        address indexed depositor,
        uint256 amount,
        uint256 appealUntil
    );
    /// @notice A penalty was appealed, which stops its clock.
    event SlashAppealed(
        bytes32 indexed penalty, bytes32 indexed provider, address indexed depositor, address by, uint256 lapsesAt
    );
    /// @notice An amount in escrow was paid to the treasury. upheld says whether an appeal was lost.
    event SlashExecuted(
        bytes32 indexed penalty, bytes32 indexed provider, address indexed depositor, uint256 amount, bool upheld
    );
    /// @notice An appeal was won: the amount in escrow is free again.
    event SlashReversed(
        bytes32 indexed penalty, bytes32 indexed provider, address indexed depositor, uint256 amount
    );
    /// @notice Nobody has ended the penalty in time: the amount in escrow is free again.
    event SlashLapsed(bytes32 indexed penalty, bytes32 indexed provider, address indexed depositor, uint256 amount);

    /// @notice The address can have no part in this contract.
    error InvalidAddress(address given);
    /// @notice The provider or the penalty has the id 0.
    error InvalidId();
    /// @notice The amount is 0, or no token arrived.
    error ZeroAmount();
    /// @notice The coin that came with the call is not the amount; with a token it must be 0.
    error WrongValue(uint256 sent, uint256 wanted);
    /// @notice All positions together would exceed what a uint128 holds.
    error TooMuch();
    /// @notice Nobody deposits into a position whose refund is requested, because the amount would not wait.
    error RefundPending();
    /// @notice A request of the same kind stands already.
    error AlreadyRequested();
    /// @notice No such request stands.
    error NotRequested();
    /// @notice The position is empty.
    error EmptyPosition();
    /// @notice A penalty of the position is open.
    error EscrowOpen(uint256 escrow);
    /// @notice It is not time yet.
    error TooEarly(uint256 notBefore);
    /// @notice The time for it is over.
    error TooLate(uint256 before);
    /// @notice The position has less than the amount outside escrow.
    error InsufficientFree(uint256 free, uint256 amount);
    /// @notice The penalty is in another state; None means that there is no such penalty.
    error WrongState(State state);
    /// @notice The caller is neither the depositor nor an operator.
    error NotAllowed(address caller);

    /// @param token_ The token of all positions; the zero address stands for the chain's coin.
    /// @param treasury_ Who receives what penalties take.
    /// @param admin The first admin, who grants and revokes the three roles.
    /// @param operator The first holder of OPERATOR.
    /// @param slasher The first holder of SLASHER.
    /// @param arbiter The first holder of ARBITER.
    constructor(
        IERC20 token_,
        address payable treasury_,
        address admin,
        address operator,
        address slasher,
        address arbiter
    ) AccessControlDefaultAdminRules(ADMIN_DELAY, admin) {
        if (address(token_) != address(0) && address(token_).code.length == 0) revert InvalidAddress(address(token_));
        if (treasury_ == address(0) || treasury_ == address(this)) revert InvalidAddress(treasury_);
        token = token_;
        treasury = treasury_;
        _grantFirst(OPERATOR, operator);
        _grantFirst(SLASHER, slasher);
        _grantFirst(ARBITER, arbiter);
    }

    /// @notice Puts the caller's money behind a provider. It is credited with what arrives.
    /// @param provider The provider's id.
    /// @param amount How much of the token to take from the caller; with the coin, what is sent along.
    function deposit(bytes32 provider, uint256 amount) external payable nonReentrant {
        if (provider == 0) revert InvalidId();
        Position storage position = _positions[provider][msg.sender];
        if (position.refundAt != 0 || position.exitAt != 0) revert RefundPending();
        uint256 received = _take(amount);
        if (received == 0) revert ZeroAmount();
        if (received > type(uint128).max - held) revert TooMuch();
        held += received;
        position.free += uint128(received);
        emit Deposited(provider, msg.sender, received);
    }

    /// @notice Requests the refund of a whole position on behalf of its provider.
    function requestRefund(bytes32 provider, address depositor) external onlyRole(OPERATOR) {
        Position storage position = _filled(provider, depositor);
        if (position.refundAt != 0) revert AlreadyRequested();
        position.refundAt = uint64(block.timestamp) + REFUND_WAIT;
        emit RefundRequested(provider, depositor, position.refundAt);
    }

    /// @notice Takes an operator's request back. A depositor's own request stays.
    function cancelRefund(bytes32 provider, address depositor) external onlyRole(OPERATOR) {
        Position storage position = _positions[provider][depositor];
        if (position.refundAt == 0) revert NotRequested();
        position.refundAt = 0;
        emit RefundCancelled(provider, depositor);
    }

    /// @notice Requests the refund of the caller's own position. Only the caller can take this back.
    function requestExit(bytes32 provider) external {
        Position storage position = _filled(provider, msg.sender);
        if (position.exitAt != 0) revert AlreadyRequested();
        position.exitAt = uint64(block.timestamp) + EXIT_WAIT;
        emit ExitRequested(provider, msg.sender, position.exitAt);
    }

    /// @notice Takes the caller's own request back. An operator's request stays.
    function cancelExit(bytes32 provider) external {
        Position storage position = _positions[provider][msg.sender];
        if (position.exitAt == 0) revert NotRequested();
        position.exitAt = 0;
        emit ExitCancelled(provider, msg.sender);
    }

    /// @notice Pays a position back to its depositor once a request is due. Anybody may call it.
    /// @dev No refund is paid while a penalty or an appeal is open (decisions, "Ladder"). A request that is due
    /// stays due meanwhile.
    function executeRefund(bytes32 provider, address depositor) external nonReentrant {
        Position storage position = _filled(provider, depositor);
        uint256 dueAt = _dueAt(position);
        if (dueAt == 0) revert NotRequested();
        if (block.timestamp < dueAt) revert TooEarly(dueAt);
        if (position.escrow != 0) revert EscrowOpen(position.escrow);
        uint256 amount = position.free;
        delete _positions[provider][depositor];
        held -= amount;
        emit Refunded(provider, depositor, amount);
        _pay(payable(depositor), amount);
    }

    /// @notice Moves an amount of a position into escrow. An id is used once, whatever becomes of it.
    /// @param penalty The penalty's id on this chain, one for each position that it concerns.
    /// @param provider The provider of the position.
    /// @param depositor The depositor of the position.
    /// @param amount The amount that the penalty takes.
    function proposeSlash(bytes32 penalty, bytes32 provider, address depositor, uint256 amount)
        external
        onlyRole(SLASHER)
    {
        if (penalty == 0) revert InvalidId();
        if (amount == 0) revert ZeroAmount();
        State state = _penalties[penalty].state;
        if (state != State.None) revert WrongState(state);
        Position storage position = _positions[provider][depositor];
        if (amount > position.free) revert InsufficientFree(position.free, amount);
        position.free -= uint128(amount);
        position.escrow += uint128(amount);
        _penalties[penalty] = Penalty(provider, depositor, uint64(block.timestamp), State.Proposed, uint128(amount));
        emit SlashProposed(penalty, provider, depositor, amount, block.timestamp + APPEAL_WINDOW);
    }

    /// @notice Appeals a penalty within its window, which stops its clock. The depositor may, and operators
    /// may on behalf of the provider.
    function appeal(bytes32 penalty) external {
        Penalty storage p = _inState(penalty, State.Proposed);
        if (msg.sender != p.depositor && !hasRole(OPERATOR, msg.sender)) revert NotAllowed(msg.sender);
        _before(p.since + APPEAL_WINDOW);
        p.state = State.Appealed;
        p.since = uint64(block.timestamp);
        emit SlashAppealed(penalty, p.provider, p.depositor, msg.sender, block.timestamp + LAPSE_AFTER);
    }

    /// @notice Pays to the treasury what a penalty has set aside that nobody has appealed in its window.
    function executeSlash(bytes32 penalty) external onlyRole(SLASHER) nonReentrant {
        Penalty storage p = _inState(penalty, State.Proposed);
        if (block.timestamp < p.since + APPEAL_WINDOW) revert TooEarly(p.since + APPEAL_WINDOW);
        _before(p.since + LAPSE_AFTER);
        _execute(penalty, p, false);
    }

    /// @notice Decides an appeal: upheld pays the amount to the treasury, otherwise it is free again.
    function resolve(bytes32 penalty, bool upheld) external onlyRole(ARBITER) nonReentrant {
        Penalty storage p = _inState(penalty, State.Appealed);
        _before(p.since + LAPSE_AFTER);
        if (upheld) {
            _execute(penalty, p, true);
        } else {
            _giveBack(p, State.Reversed);
            emit SlashReversed(penalty, p.provider, p.depositor, p.amount);
        }
    }

    /// @notice Frees what a penalty has set aside that nobody has ended in time. Anybody may call it.
    function lapse(bytes32 penalty) external {
        Penalty storage p = _penalties[penalty];
        if (p.state != State.Proposed && p.state != State.Appealed) revert WrongState(p.state);
        if (block.timestamp < p.since + LAPSE_AFTER) revert TooEarly(p.since + LAPSE_AFTER);
        _giveBack(p, State.Lapsed);
        emit SlashLapsed(penalty, p.provider, p.depositor, p.amount);
    }

    /// @notice The position of a depositor behind a provider; all fields are 0 where there is none.
    function positionOf(bytes32 provider, address depositor) external view returns (Position memory) {
        return _positions[provider][depositor];
    }

    /// @notice The penalty of an id; its state is None where there is none.
    function penaltyOf(bytes32 penalty) external view returns (Penalty memory) {
        return _penalties[penalty];
    }

    /// @dev Grants a role to its first holder. A role that nobody holds would be noticed when it is needed.
    function _grantFirst(bytes32 role, address account) private {
        if (account == address(0)) revert InvalidAddress(account);
        _grantRole(role, account);
    }

    /// @dev Takes an amount from the caller, and returns what arrived of it.
    function _take(uint256 amount) private returns (uint256) {
        bool coin = address(token) == address(0);
        if (msg.value != (coin ? amount : 0)) revert WrongValue(msg.value, coin ? amount : 0);
        if (coin) return amount;
        uint256 before = token.balanceOf(address(this));
        token.safeTransferFrom(msg.sender, address(this), amount);
        return token.balanceOf(address(this)) - before;
    }

    /// @dev Pays an amount that has been taken from the books before.
    function _pay(address payable to, uint256 amount) private {
        if (address(token) == address(0)) {
            Address.sendValue(to, amount);
        } else {
            token.safeTransfer(to, amount);
        }
    }

    /// @dev Takes a penalty's amount from its position and pays it to the treasury. Where that empties the
    /// position, its requests end, because they would keep its depositor from the next deposit.
    function _execute(bytes32 penalty, Penalty storage p, bool upheld) private {
        Position storage position = _positions[p.provider][p.depositor];
        p.state = State.Executed;
        position.escrow -= p.amount;
        held -= p.amount;
        if (position.free == 0 && position.escrow == 0) {
            if (position.refundAt != 0) emit RefundCancelled(p.provider, p.depositor);
            if (position.exitAt != 0) emit ExitCancelled(p.provider, p.depositor);
            delete _positions[p.provider][p.depositor];
        }
        emit SlashExecuted(penalty, p.provider, p.depositor, p.amount, upheld);
        _pay(treasury, p.amount);
    }

    /// @dev Ends a penalty and frees its amount.
    function _giveBack(Penalty storage p, State end) private {
        Position storage position = _positions[p.provider][p.depositor];
        p.state = end;
        position.escrow -= p.amount;
        position.free += p.amount;
    }

    /// @dev The position, which must not be empty.
    function _filled(bytes32 provider, address depositor) private view returns (Position storage position) {
        position = _positions[provider][depositor];
        if (position.free == 0 && position.escrow == 0) revert EmptyPosition();
    }

    /// @dev The penalty, which must be in the state.
    function _inState(bytes32 penalty, State state) private view returns (Penalty storage p) {
        p = _penalties[penalty];
        if (p.state != state) revert WrongState(p.state);
    }

    /// @dev When the first of a position's requests is due; 0 when there is none.
    function _dueAt(Position storage position) private view returns (uint256) {
        (uint256 refundAt, uint256 exitAt) = (position.refundAt, position.exitAt);
        if (refundAt == 0) return exitAt;
        return exitAt == 0 || refundAt < exitAt ? refundAt : exitAt;
    }

    /// @dev Refuses from the time on.
    function _before(uint256 time) private view {
        if (block.timestamp >= time) revert TooLate(time);
    }
}
