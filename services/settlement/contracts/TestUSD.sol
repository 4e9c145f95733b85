// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @title A dollar for development chains, with what USDC has and we depend on
/// @notice It has 6 decimals, transfers by signature (EIP-3009), and addresses that its owner blocks.
/// It is worth nothing: its owner makes as much of it as wanted.
contract TestUSD is ERC20, Ownable {
    /// @notice EIP-3009's type of a transfer by signature.
    bytes32 public constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    /// @notice EIP-712's domain on this chain.
    bytes32 public immutable DOMAIN_SEPARATOR;
    /// @notice The version in EIP-712's domain. USDC has 2, too.
    string public constant version = "2";

    /// @notice Addresses that neither send nor receive.
    mapping(address account => bool) public isBlacklisted;
    /// @notice Whether a nonce of an account is used.
    mapping(address account => mapping(bytes32 nonce => bool)) public authorizationState;

    /// @notice A signature was used.
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    /// @notice An address was blocked.
    event Blacklisted(address indexed account);
    /// @notice An address was unblocked.
    event UnBlacklisted(address indexed account);

    /// @notice The address is blocked.
    error Blocked(address account);
    /// @notice The signature is not valid yet.
    error AuthorizationNotYetValid(uint256 validAfter);
    /// @notice The signature is not valid any more.
    error AuthorizationExpired(uint256 validBefore);
    /// @notice The nonce is used.
    error AuthorizationUsedBefore(address authorizer, bytes32 nonce);
    /// @notice Somebody else has signed.
    error InvalidSignature();

    constructor(address owner_) ERC20("Test USD", "TUSD") Ownable(owner_) {
        DOMAIN_SEPARATOR = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes("Test USD")),
                keccak256(bytes(version)),
                block.chainid,
                address(this)
            )
        );
    }

    /// @notice As USDC.
    function decimals() public pure override returns (uint8) {
        return 6;
    }

    /// @notice Makes an amount for an address.
    function mint(address to, uint256 amount) external onlyOwner {
        _mint(to, amount);
    }

    /// @notice Blocks an address.
    function blacklist(address account) external onlyOwner {
        isBlacklisted[account] = true;
        emit Blacklisted(account);
    }

    /// @notice Unblocks an address.
    function unBlacklist(address account) external onlyOwner {
        isBlacklisted[account] = false;
        emit UnBlacklisted(account);
    }

    /// @notice Moves an amount by its holder's signature, whoever sends it (EIP-3009).
    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        if (block.timestamp <= validAfter) revert AuthorizationNotYetValid(validAfter);
        if (block.timestamp >= validBefore) revert AuthorizationExpired(validBefore);
        if (authorizationState[from][nonce]) revert AuthorizationUsedBefore(from, nonce);
        bytes32 content = keccak256(
            abi.encode(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce)
        );
        bytes32 digest = keccak256(abi.encodePacked("\x19\x01", DOMAIN_SEPARATOR, content));
        if (ECDSA.recover(digest, v, r, s) != from) revert InvalidSignature();
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
        _transfer(from, to, value);
    }

    /// @dev Every movement passes here.
    function _update(address from, address to, uint256 value) internal override {
        if (isBlacklisted[from]) revert Blocked(from);
        if (isBlacklisted[to]) revert Blocked(to);
        super._update(from, to, value);
    }
}
